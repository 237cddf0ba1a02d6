"""What a launch may begin with: settings that are kept under a name, and the trials of another run."""

"""What is left to gain from a run, as pages show it."""

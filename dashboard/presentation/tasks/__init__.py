"""What the page of a task shows besides its records."""

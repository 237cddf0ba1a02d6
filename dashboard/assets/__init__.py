"""Static files: where they come from and how they are named."""

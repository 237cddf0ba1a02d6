"""What this machine is called, what it is, and how busy it is."""

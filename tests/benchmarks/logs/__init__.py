"""How fast record logs are read, compared with parsing their JSON alone."""

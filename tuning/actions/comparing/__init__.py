"""What is done with several runs beside each other."""

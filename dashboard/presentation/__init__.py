"""How figures and names are written for people. Units are chosen here and nowhere else."""

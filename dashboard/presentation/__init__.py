"""Text and figures for people. Units are chosen here and nowhere else."""

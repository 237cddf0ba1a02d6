"""Pages of runs: the list, one run, its trials and tasks, runs compared."""

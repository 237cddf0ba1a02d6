"""The house: commands, processes, documents."""

"""The project as a whole: commands, processes, documents."""

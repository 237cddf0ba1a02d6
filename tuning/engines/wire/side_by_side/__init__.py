"""Records that are measured side by side: what the process that does it is asked, and what it answers."""

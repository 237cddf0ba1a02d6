"""Programs that answer one question about a network or a record, and end."""

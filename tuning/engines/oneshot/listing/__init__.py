"""Programs that list what the installed TVM knows, which changes only with its version."""

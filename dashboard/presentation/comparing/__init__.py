"""A comparison as people see it: its view, what follows from it, and its charts."""

"""What tunes: each engine is a process of its own that speaks `protocol`. No Django here."""

"""What an interpreter with an older TVM is asked for: to tune for a target, VTA among them, and to compile."""

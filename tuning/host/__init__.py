"""This machine and its processes: databases, Valkey, sandboxed child processes, devices and targets."""

"""Tuning engines and other uses of TVM. Each runs in a process of its own and without Django."""

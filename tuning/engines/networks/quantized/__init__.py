"""Computes quantized operators in integers, where the target's CPU has instructions for that."""

"""Computes products of float32 data with constant weights in bfloat16."""

"""Computes 3 × 3 convolutions by Winograd's algorithm."""

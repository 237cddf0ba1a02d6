"""Whole networks, tuned by Tuneboard and compared with ONNX Runtime."""

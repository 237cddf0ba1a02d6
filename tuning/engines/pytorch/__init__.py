"""Runs under another interpreter: Python 3.10 or later, its standard library and PyTorch, none of our packages. No TVM.

What these programs are asked, and answer, is in `wire.pytorch`.
"""

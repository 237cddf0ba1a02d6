"""Programs of `torch.export` (`.pt2`), which can't be trusted: their archives are checked, and rewritten, before PyTorch reads them.

`torch.export.load` unpickles example inputs and tensor subclasses, loads compiled libraries, and evaluates expressions. So nothing
of that is in the copy: JSON that was parsed and checked here, and raw weights.
"""

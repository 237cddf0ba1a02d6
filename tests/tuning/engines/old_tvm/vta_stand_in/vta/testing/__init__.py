"""As in VTA."""

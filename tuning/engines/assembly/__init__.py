"""What assembly tells without being run."""

from .hot_loop import hot_loop

__all__ = ("hot_loop",)

"""Tuning engines and other uses of TVM. Each runs in a process of its own and without Django.

Where PyTorch is installed beside TVM, TVM imports it: that takes gigabytes of addresses, starts threads, which a process must not have
when it is confined, and touches the GPU before anything is forked. Nothing here but `pytorch` uses it, so it can't be imported.
"""

import sys


class WithoutPyTorch:
    """Begins `sys.meta_path`. None in `sys.modules` would hide PyTorch as well, but SciPy takes what is there for it."""

    needed = False

    def find_spec(self, name: str, *_more: object) -> None:
        """As of `importlib.abc.MetaPathFinder`."""
        if name == f"{__name__}.pytorch":
            self.needed = True
        if name == "torch" and not self.needed:
            raise ModuleNotFoundError("PyTorch isn't imported beside TVM", name=name)


sys.meta_path.insert(0, WithoutPyTorch())

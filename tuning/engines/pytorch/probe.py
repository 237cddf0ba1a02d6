"""Tells what this interpreter has: `python -m tuning.engines.pytorch.probe`. See `wire.pytorch.TorchProbed`.

Without PyTorch there is no answer: the last line of stderr says why.
"""

from . import packages


def main() -> None:
    """Answer on the stdout that this process began with."""
    say = packages.private_stdout()
    try:
        versions = packages.imported(say)
    except packages.Missing as missing:
        raise SystemExit(str(missing)) from None
    say({"type": "torch_probed", "versions": versions})


if __name__ == "__main__":
    main()

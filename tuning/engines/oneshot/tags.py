"""The target tags that TVM knows: `python -m tuning.engines.oneshot.tags` writes a JSON list of those that can be tuned for."""

from __future__ import annotations

import json
import sys

KINDS = ("llvm", "cuda")


def tags() -> list[str]:
    """Names such as nvidia/nvidia-a100, in order."""
    from tvm.target import Target, tag

    return sorted(str(name) for name in tag.list_tags() if str(Target(name).kind.name) in KINDS)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(tags()) + "\n")

"""`python -m tuning.engines.oneshot.probing` answers a `Probe` with `InForce`."""

from __future__ import annotations

import os

from tuning.engines.wire.question import InForce, Probe

from . import serving


def probe(question: Probe, pipe: serving.Pipe) -> InForce:
    """What confines this process, if that keeps it from the site's data."""
    return InForce(None if _reaches(question.data) else pipe.confined.files, pipe.confined.network)


def _reaches(folder: str) -> bool:
    try:
        os.listdir(folder)  # noqa: PTH208 - says only whether it may
    except PermissionError:
        return False
    return True


def main() -> None:
    serving.serve(Probe, lambda question, pipe: pipe.send(probe(question, pipe)), "It can't be told")


if __name__ == "__main__":
    main()

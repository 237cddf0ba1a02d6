"""`python -m tuning.engines.oneshot.probing` answers a `Probe` with `InForce`."""

from __future__ import annotations

from tuning.engines.wire.question import Probe

from . import serving


def main() -> None:
    serving.serve(Probe, lambda _question, pipe: pipe.send(pipe.confined), "It can't be told")


if __name__ == "__main__":
    main()

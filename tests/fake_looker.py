"""Finds nothing wrong with any library, in place of `tuning.engines.oneshot.library_file`: `tests.fake_compiler` builds none that could be read."""

from __future__ import annotations

from tuning.engines.oneshot import serving
from tuning.engines.wire.compiling import LookInto, Needs


def answer(_question: LookInto, pipe: serving.Pipe) -> None:
    pipe.send(Needs([]))


if __name__ == "__main__":
    serving.serve(LookInto, answer, "It can't be looked into")

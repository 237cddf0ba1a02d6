"""Which operators uploaded models may have, as a process with TVM tells: TVM doesn't load in the web process."""

from __future__ import annotations

import threading

from tuning.engines.wire import versions
from tuning.engines.wire.inspecting import ListOperators, Operators

from . import sandbox

LISTER = "tuning.engines.oneshot.listing.operators"
"""The program of the child process."""
_answers: dict[str, Operators] = {}
"""By the version of TVM. There is one at a time."""
_asking = threading.Lock()


def version() -> str:
    """The installed version of TVM."""
    return versions.installed("apache-tvm") or ""


def known() -> Operators | None:
    """The answer for the installed version, if it was asked for already."""
    return _answers.get(version())


def operators() -> Operators:
    """The answer, which takes seconds the first time. Raises `Refused` if TVM gives none, and `Busy`."""
    with _asking:
        here = version()
        if here not in _answers:
            answer = sandbox.ask_once(LISTER, ListOperators(**sandbox.limits(), quietly=False), Operators)
            _answers.clear()
            _answers[here] = answer
        return _answers[here]

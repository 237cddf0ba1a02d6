"""How a process that builds or proves a library says how far it is."""

from __future__ import annotations

from tuning.engines.wire.compiling import Phase, PhaseName

from .serving import Pipe


def tell(pipe: Pipe, name: PhaseName, progress: float | None = None) -> None:
    """What goes on from now on; as a step as well, which is named should the process die at it."""
    pipe.step(name.capitalize())
    pipe.send(Phase(name, progress))

"""Progress of the processes that build and prove libraries."""

from __future__ import annotations

from tuning.engines.wire.compiling import Phase, PhaseName

from .serving import Pipe


def tell(pipe: Pipe, name: PhaseName, progress: float | None = None) -> None:
    """Say what the process is doing from now on. It is sent as a step too, which is quoted if the process dies."""
    pipe.step(name.capitalize())
    pipe.send(Phase(name, progress))

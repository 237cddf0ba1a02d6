"""The question that a short-lived process is asked, and the answers that any of them may give.

`tuning.host.sandbox` asks, `tuning.engines.oneshot.serving` answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

import msgspec
from msgspec import Meta


def ipc_namespace() -> str | None:
    """Name of the namespace of this process's shared memory; None where the kernel has none."""
    try:
        return str(Path("/proc/self/ns/ipc").readlink())
    except OSError:
        return None


class Reach(NamedTuple):
    """What a process reaches besides code and temporary files: paths, and the network or not."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    network: bool = False


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The limits under which the process works. Subclasses add what is asked."""

    program: ClassVar[str] = "TVM"
    """What is said to have crashed, if the process dies."""
    memory_mb: Annotated[int, Meta(ge=1)]
    """Address space in MiB."""
    cpu_s: Annotated[int, Meta(ge=1)]
    """Processor time in seconds."""
    quietly: bool = True
    """Run at low priority, since runs may be measuring on this machine. Off if it is this process that measures."""

    def reach(self) -> Reach:
        """What the process needs for the answer."""
        return Reach()


class Step(msgspec.Struct, tag="step", frozen=True):
    """What the process is doing from now on."""

    text: str


class Probe(Question, frozen=True):
    """Asks what confines the process that answers."""

    data: str
    """The site's data folder, which it must not be able to read."""
    socket: str | None
    """The embedded Valkey's, whose commands it must not be able to give."""
    ipc: str | None
    """Names the namespace of shared memory that the site is in, if the kernel has such."""


class InForce(msgspec.Struct, tag="in_force", frozen=True):
    """What confines a process; null where the machine doesn't offer it."""

    files: str | None
    network: str | None
    processes: str | None
    """What limits their number, and ends with the process all that it started."""
    broker: str | None = None
    """What keeps it from the embedded Valkey; null, too, if there is none."""
    metadata: str | None = None
    """What keeps it from changing modes, owners and times of files that aren't its own."""
    ipc: str | None = None
    """What keeps it from shared memory of other processes, and from memory that outlives it."""
    calls: str | None = None
    """What keeps it from parts of the kernel that it doesn't need."""


class Refusal(msgspec.Struct, tag="refused", frozen=True):
    """Why there is no answer: `errors.Refused` on the wire."""

    error: str
    dims: list[str] | None = None

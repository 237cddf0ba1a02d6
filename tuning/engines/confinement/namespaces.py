"""Namespaces of its own: a process sees no network, no other processes and few sockets, and has no privilege outside, even as root."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from tuning.engines.wire.lifeline import die_with

from . import mounts, privileges
from .calling import check, libc

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
OUTSIDE = 0
"""What a process sees as its parent's id if that is outside of its namespace."""
EVERY_ID = (1 << 32) - 1


class Apart(NamedTuple):
    """What namespaces of its own give a process, besides those of networks and processes."""

    is_read_only: bool
    """Whether it can change nothing but its own folders, not even the mode of a file."""


def enter(reads: Iterable[Path], writes: Iterable[Path], *, network: bool) -> Apart | None:
    """Continue in a child, in namespaces of its own; None if this process may not make them.

    The process that called waits and ends as the child ends. When it is killed, everything in the namespaces is. Of folders with
    sockets, only what is named stays. Without `network`, there is none, not even this machine's.
    """
    if not sys.platform.startswith("linux"):
        return None
    is_root = _is_root()
    ids = EVERY_ID if is_root else 1
    flags = NEW_USER | NEW_PROCESSES | NEW_MOUNTS | NEW_IPC | (0 if network else NEW_NETWORK)
    plans = [_Plan(list(reads), list(writes), is_read_only, is_root) for is_read_only in (True, False)]
    plan = next((plan for plan in plans if _succeeds(partial(_rehearse, flags, ids, plan))), None)
    if plan is None:
        return None
    _unshare(flags, ids)
    _continue_in_child()
    _settle(plan)
    die_with(OUTSIDE)  # Only now: the kernel forgets it when the id changes.
    _continue_as_second()
    return Apart(plan.is_read_only)


class _Plan(NamedTuple):
    """What to do in the namespaces. Kernels before 5.12 can't make all mounts read-only."""

    reads: list[Path]
    writes: list[Path]
    is_read_only: bool
    is_root: bool


def leave_network() -> bool:
    """Enter a namespace without any network. Only root may, unless it is in a user namespace."""
    return sys.platform.startswith("linux") and bool(libc().unshare(NEW_NETWORK) == 0)


def limit_processes(most: int) -> None:
    """At most this many processes and threads, counted in the user namespace."""
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _is_root() -> bool:
    """Whether it is the machine's root, not that of a container with ids of its own."""
    mapped = Path("/proc/self/uid_map").read_text().split()
    return os.geteuid() == 0 and mapped == ["0", "0", str(EVERY_ID)]


def _succeeds(work: Callable[[], None]) -> bool:
    """Whether a child can do it."""
    if not (child := os.fork()):
        _end(work)
    return os.waitpid(child, 0)[1] == 0


def _rehearse(flags: int, ids: int, plan: _Plan) -> None:
    """There is no way back from half of it: some systems let a process make namespaces, but do nothing in them. Raises `OSError`."""
    _unshare(flags, ids)
    _settle(plan)


def _settle(plan: _Plan) -> None:
    mounts.cover([*plan.reads, *plan.writes])
    if plan.is_read_only:
        mounts.make_read_only(plan.writes)
    privileges.drop(is_root=plan.is_root)


def _unshare(flags: int, ids: int) -> None:
    """Enter new namespaces, where users and groups are called as before. A child that stays outside maps their ids. Raises `OSError`."""
    this = os.getpid()
    reader, writer = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        os.close(writer)
        _end(lambda: _map(this, ids) if os.read(reader, 1) else None)
    os.close(reader)
    with os.fdopen(writer, "wb") as ready:
        done = libc().unshare(flags)
        ready.write(b"x" if done == 0 else b"")
    mapped = os.waitpid(mapper, 0)[1] == 0
    check("Namespaces", done)
    if not mapped:
        raise OSError("The ids of a user namespace can't be mapped.")


def _map(process: int, ids: int) -> None:
    folder = Path(f"/proc/{process}")
    (folder / "setgroups").write_text("deny")
    for name, own in (("uid_map", os.geteuid()), ("gid_map", os.getegid())):
        first = own if ids == 1 else 0
        (folder / name).write_text(f"{first} {first} {ids}")


def _continue_in_child() -> None:
    """Return in a child, the first process of the namespace, which ends with this one. This one ends as the namespace's second does."""
    global _status
    reader, _status = os.pipe()
    if first := os.fork():
        _outlive(first, reader)
    os.close(reader)


_status = -1
"""Where the first process writes how the second one ended."""


def _continue_as_second() -> None:
    """Return in a child. The first process only waits: signals of its own namespace don't end it, so how it ends would say nothing."""
    if not (second := os.fork()):
        os.close(_status)
        return
    _close_all_but(_status)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(second, signal.SIGTERM))
    ended, how = os.wait()
    while ended != second:
        ended, how = os.wait()
    os.write(_status, struct.pack("=i", how))
    os._exit(0)


def _outlive(first: int, reader: int) -> NoReturn:
    """Wait for the process that works, end as it does, and pass on SIGTERM."""
    _close_all_but(reader)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGTERM))
    told = os.read(reader, 4)
    os.waitpid(first, 0)
    how = struct.unpack("=i", told)[0] if told else int(signal.SIGKILL)
    if os.WIFSIGNALED(how):
        with contextlib.suppress(OSError):  # SIGKILL needs no handler.
            signal.signal(os.WTERMSIG(how), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(how))
    os._exit(os.WEXITSTATUS(how))


def _close_all_but(kept: int) -> None:
    """What it keeps open would hide from the other end that the process which works has ended."""
    os.closerange(0, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _end(work: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        with contextlib.suppress(OSError):
            work()
            status = 0
    finally:
        os._exit(status)

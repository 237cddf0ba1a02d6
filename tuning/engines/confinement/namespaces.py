"""Namespaces of its own: a process sees no network, no other processes and few sockets, and has no privilege outside, even as root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from tuning.engines.wire.lifeline import die_with

NEW_MOUNTS, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x00020000, 0x10000000, 0x20000000, 0x40000000
OUTSIDE = 0
"""What a process sees as its parent's id if that is outside of its namespace."""
NOBODYS_ID = 1_900_000_000
"""No user has it. The limit on processes doesn't hold for root, so a process of root's takes this one."""
EVERY_ID = (1 << 32) - 1
DUMPABLE, SECURE_BITS, AMBIENT, RAISE = 4, 28, 47, 2
NO_SETUID_FIXUP = 4
"""Capabilities don't depend on the id, neither when it changes nor in `access`, by which compilers choose their temporary folder."""
FILES = (1, 2, 3)
"""Capabilities that root needs for its own files under another id: what it may reach of them is up to Landlock."""
CAPABILITIES_VERSION = 0x20080522
BIND, RECURSIVE, REMOUNT, READ_ONLY, NO_SETUID, NO_DEVICES = 4096, 16384, 32, 1, 2, 4
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - covered, not written to
HIDDEN = (Path("/run"), Path("/tmp"), Path("/var/tmp"), SHARED_MEMORY)  # noqa: S108
"""Folders where servers have their sockets, to which Landlock can't forbid to connect, and where processes leave shared memory."""


def enter(kept: Iterable[Path], *, network: bool) -> bool:
    """Continue in a child, in namespaces of its own, if this process may make them; says whether it could.

    The process that called waits and ends as the child ends. When it is killed, everything in the namespaces is. Of `HIDDEN`, only
    what is `kept` stays. Without `network`, there is none, not even this machine's.
    """
    if not sys.platform.startswith("linux"):
        return False
    is_root, paths = _is_root(), list(kept)
    ids = EVERY_ID if is_root else 1
    flags = NEW_USER | NEW_PROCESSES | NEW_MOUNTS | (0 if network else NEW_NETWORK)
    if not _succeeds(lambda: _rehearse(flags, ids, paths, is_root=is_root)):
        return False
    _unshare(flags, ids)
    _continue_in_child()
    _hide(paths)
    _drop_privileges(is_root=is_root)
    die_with(OUTSIDE)  # Only now: the kernel forgets it when the id changes.
    _continue_as_second()
    return True


def leave_network() -> bool:
    """Enter a namespace without any network. Only root may, unless it is in a user namespace."""
    return sys.platform.startswith("linux") and bool(_libc().unshare(NEW_NETWORK) == 0)


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


def _rehearse(flags: int, ids: int, kept: list[Path], *, is_root: bool) -> None:
    """There is no way back from half of it: some systems let a process make namespaces, but do nothing in them. Raises `OSError`."""
    _unshare(flags, ids)
    _hide(kept)
    _drop_privileges(is_root=is_root)


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
        done = _libc().unshare(flags)
        ready.write(b"x" if done == 0 else b"")
    mapped = os.waitpid(mapper, 0)[1] == 0
    _check(done)
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


def _hide(kept: list[Path]) -> None:
    """Cover the folders with empty ones in memory, and show again what is needed of them. `/proc` shows this namespace's processes."""
    place = Path.cwd()
    for hidden in HIDDEN:
        if hidden.is_symlink() or not hidden.is_dir():
            continue
        inside = {path for path in (*kept, place) if hidden in path.parents and path.exists()}
        opened = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in _outermost(inside)]
        _mount(
            "tmpfs",
            str(hidden),
            "tmpfs",
            NO_SETUID | NO_DEVICES,
            "mode=1777" if hidden == SHARED_MEMORY else "size=16m",
        )
        for path, descriptor in opened:
            _make_like(path, descriptor)
            _mount(f"/proc/self/fd/{descriptor}", str(path), None, BIND | RECURSIVE)
            os.close(descriptor)
    with contextlib.suppress(OSError):  # Where parts of /proc are hidden, as in containers, it stays as it is.
        _mount("proc", "/proc", "proc", NO_SETUID | NO_DEVICES)
        _protect_machine()
    os.chdir(place)


def _protect_machine() -> None:
    """What /proc has besides processes, such as the kernel's settings, can only be read. Raises `OSError`."""
    for path in Path("/proc").iterdir():
        if not path.name.isdecimal() and not path.is_symlink() and (path.is_dir() or os.access(path, os.W_OK)):
            _mount(str(path), str(path), None, BIND | RECURSIVE)
            _mount(str(path), str(path), None, BIND | REMOUNT | READ_ONLY | NO_SETUID | NO_DEVICES)


def _outermost(paths: set[Path]) -> list[Path]:
    return sorted(path for path in paths if not any(other in path.parents for other in paths))


def _make_like(path: Path, descriptor: int) -> None:
    """An empty file or folder to mount on."""
    if Path(f"/proc/self/fd/{descriptor}").is_dir():
        path.mkdir(parents=True, exist_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def _drop_privileges(*, is_root: bool) -> None:
    """No capability in the namespace, but for root those for its files, which it then reaches under another id."""
    if is_root:
        _check(_libc().prctl(SECURE_BITS, NO_SETUID_FIXUP, 0, 0, 0))
        os.setresuid(NOBODYS_ID, NOBODYS_ID, NOBODYS_ID)
    kept = sum(1 << capability for capability in FILES) if is_root else 0
    _check(_libc().capset(struct.pack("=Ii", CAPABILITIES_VERSION, 0), struct.pack("=6I", kept, kept, kept, 0, 0, 0)))
    for capability in FILES if is_root else ():
        _check(_libc().prctl(AMBIENT, RAISE, capability, 0, 0))  # Programs that it starts have them, too.
    _check(_libc().prctl(DUMPABLE, 1, 0, 0, 0))  # Otherwise its entry in /proc isn't its own.


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    _check(_libc().mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3]))


def _end(work: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        with contextlib.suppress(OSError):
            work()
            status = 0
    finally:
        os._exit(status)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Namespaces: {os.strerror(number)}")

"""What an upload might try once its code runs. Without imports of ours: it is also copied to where a confined process finds it.

TVM_HOSTILE_VAR is the site's data folder, TVM_HOSTILE_PORT a port of this machine where somebody listens, TVM_HOSTILE_SOCKET a
Valkey's socket.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import platform
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

VAR = Path(os.environ.get("TVM_HOSTILE_VAR", "."))
PORT = int(os.environ.get("TVM_HOSTILE_PORT", "0"))
SOCKET = os.environ.get("TVM_HOSTILE_SOCKET", "")
PROGRAMS = Path(__file__).parent
LEFT_BEHIND_S = os.environ.get("TVM_HOSTILE_SLEEP", "600")
"""By which the test knows its own."""
NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000
MANY = 3000
VSOCK, CRYPTOGRAPHY, ROUTES = 40, 38, 16
MUCH = 128 << 20
ATTACH, READS_MEMORY = 16, 8
FS_OPEN, IO_URING = 430, 425
"""System calls with the same numbers on every machine. Others have one here for each."""
ADD_KEY = {"x86_64": 248, "aarch64": 217}
PERF_EVENTS = {"x86_64": 298, "aarch64": 241}
BPF = {"x86_64": 321, "aarch64": 280}
USER_FAULTS = {"x86_64": 323, "aarch64": 282}
CLONE = {"x86_64": 56, "aarch64": 220}
LARGE = 5 << 30
WITHOUT_NAMESPACES = {
    "read the environment of its parent",
    "send by UDP",
    "fork without end",
    "see the site's processes",
    "connect to a socket in /tmp",
    "open a file to everybody",
    "change a file's times",
    "touch a file",
    "fill the machine's memory by /dev/shm",
}
"""What may succeed where a process can't have namespaces of its own."""


def connect_by_tcp() -> None:
    socket.create_connection(("127.0.0.1", PORT), timeout=2).close()


def send_by_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"secret", ("127.0.0.1", PORT))


def command_valkey() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        client.connect(SOCKET)
        client.sendall(b"PING\r\n")
        if not client.recv(64).startswith(b"+PONG"):
            raise PermissionError("Valkey asks for a password")


def connect_to_a_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(VAR / "socket"))


def fork_without_end() -> None:
    started: list[int] = []
    try:
        while len(started) < MANY:
            if not (child := os.fork()):
                os.setsid()
                signal.pause()
            started.append(child)
    finally:
        for child in started:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def become_root() -> None:
    os.setuid(0)
    if os.getresuid() == (0, 0, 0) and len(Path("/proc/self/uid_map").read_text().split()) == 3:
        return
    raise PermissionError


def read_environment() -> None:
    if b"=" not in Path(f"/proc/{os.getppid()}/environ").read_bytes() or os.getpid() == 2:
        raise PermissionError


def kill_parent() -> None:
    """The namespace's first process, which ignores it, isn't the site's."""
    if os.getppid() == 1 and os.getpid() == 2:
        raise PermissionError
    os.kill(os.getppid(), signal.SIGCONT)


def uncover_folders() -> None:
    """In a child, which loses its privileges by the attempt."""
    if not (child := os.fork()):
        os._exit(0 if _uncovers() else 1)
    if os.waitpid(child, 0)[1]:
        raise PermissionError


def _uncovers() -> bool:
    libc = ctypes.CDLL(None)
    libc.unshare(NEW_USER | NEW_MOUNTS)
    return any(libc.umount2(folder, 2) == 0 for folder in (b"/tmp", b"/run", b"/proc"))


def write_a_temporary_file() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")


def fill_the_disk() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(LARGE)


def see_processes() -> None:
    """Of the namespace there are few: the first, this one and its children."""
    seen = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    if os.getpid() == 2 and len(seen) < 20:
        raise PermissionError


def succeed(result: int) -> int:
    """Return the result of a call of the C library. Raises `OSError` if it failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), "the call failed")
    return result


LIBC = ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: Any) -> int:
    words = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    return succeed(LIBC.syscall(ctypes.c_long(number), *words))


def make_setuid_programs() -> None:
    """By each way to give a file its mode."""
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "own"
        own.touch()
        ways: list[Callable[[], Any]] = [
            lambda: own.chmod(0o4755),
            lambda: own.chmod(0o2755),
            lambda: os.chmod("own", 0o4755, dir_fd=os.open(folder, os.O_RDONLY)),
            lambda: os.fchmod(os.open(own, os.O_RDWR), 0o4755),
            lambda: os.open(f"{folder}/new", os.O_CREAT | os.O_WRONLY, 0o4755),
            lambda: os.mknod(f"{folder}/regular", stat.S_IFREG | 0o4755),
        ]
        if not any(succeeds(way) for way in ways):
            raise PermissionError


def make_devices() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kinds = (stat.S_IFCHR, stat.S_IFBLK)
        make = (partial(os.mknod, f"{folder}/{kind}", kind | 0o600, os.makedev(1, 3)) for kind in kinds)
        if not any(succeeds(way) for way in make):
            raise PermissionError


def mount_memory() -> None:
    with tempfile.TemporaryDirectory() as folder:
        succeed(LIBC.mount(b"tmpfs", folder.encode(), b"tmpfs", ctypes.c_ulong(0), None))


def enter_in_a_child(call: Callable[[], Any]) -> None:
    """A child succeeds, and this process stays where it is."""
    if not (child := os.fork()):
        os._exit(0 if call() >= 0 else 1)
    if os.waitpid(child, 0)[1]:
        raise PermissionError


def clone_a_user_namespace() -> None:
    if (child := system_call(CLONE[platform.machine()], NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)) == 0:
        os._exit(0)
    os.waitpid(child, 0)


def leave_memory() -> None:
    succeed(LIBC.shmget(0, ctypes.c_size_t(4096), 0o600))


def leave_a_queue() -> None:
    succeed(LIBC.mq_open(b"/tuneboard-hostile", os.O_CREAT | os.O_RDWR, 0o600, None))


def fill_shared_memory() -> None:
    file = Path("/dev/shm") / f"tuneboard-hostile-{os.getpid()}"
    try:
        file.write_bytes(bytes(MUCH))
    finally:
        file.unlink(missing_ok=True)


def with_a_child(act: Callable[[int], Any]) -> None:
    if not (child := os.fork()):
        signal.pause()
    try:
        act(child)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def trace(child: int) -> None:
    succeed(LIBC.ptrace(ATTACH, child, None, None))


def read_memory(child: int) -> None:
    secret, copy = ctypes.create_string_buffer(b"secret"), ctypes.create_string_buffer(6)
    there, here = (ctypes.c_void_p * 2)(ctypes.addressof(secret), 6), (ctypes.c_void_p * 2)(ctypes.addressof(copy), 6)
    size = ctypes.c_ulong(1)
    succeed(LIBC.process_vm_readv(child, here, size, there, size, ctypes.c_ulong(0)))


ATTEMPTS: dict[str, Callable[[], Any]] = {
    "read the secret key": (VAR / "secret_key").read_text,
    "list the data folder": lambda: list(VAR.iterdir()),
    "write to the data folder": lambda: (VAR / "mine").write_text("x"),
    "read it in a child": lambda: subprocess.run(["cat", VAR / "secret_key"], check=True, capture_output=True),
    "read the home folder": lambda: list(Path.home().iterdir()),
    "read /etc/shadow": lambda: Path("/etc/shadow").read_text(),
    "change a program": lambda: (PROGRAMS / "mine.py").write_text("x"),
    "read the environment of its parent": read_environment,
    "kill its parent": kill_parent,
    "see the site's processes": see_processes,
    "connect by TCP": connect_by_tcp,
    "send by UDP": send_by_udp,
    "give Valkey a command": command_valkey,
    "connect to a socket in /tmp": connect_to_a_socket,
    "fork without end": fork_without_end,
    "become root": become_root,
    "uncover folders": uncover_folders,
    "fill the disk with a file": fill_the_disk,
    "make a file run as its owner": lambda: (VAR / "secret_key").chmod(0o4777),
    "open a file to everybody": lambda: (VAR / "secret_key").chmod(0o777),
    "change a file's times": lambda: os.utime(VAR / "secret_key", (1, 1)),
    "touch a file": lambda: os.utime(VAR / "secret_key"),
    "give a file an attribute": lambda: os.setxattr(VAR / "secret_key", "user.mine", b"x"),
    "give its own file an attribute": lambda: os.setxattr(tempfile.mkstemp()[1], "user.mine", b"x"),
    "change a file's owner": lambda: os.chown(VAR / "secret_key", os.getuid(), os.getgid()),
    "make programs that run as their owner": make_setuid_programs,
    "make devices": make_devices,
    "mount memory": mount_memory,
    "open a file system": lambda: system_call(FS_OPEN, b"tmpfs", 0),
    "change its root": lambda: enter_in_a_child(lambda: LIBC.chroot(b"/tmp")),
    "make a user namespace": lambda: enter_in_a_child(lambda: LIBC.unshare(NEW_USER)),
    "make one for a child": clone_a_user_namespace,
    "enter a namespace": lambda: enter_in_a_child(lambda: LIBC.setns(os.open("/proc/self/ns/user", os.O_RDONLY), 0)),
    "talk to the machine's host": lambda: socket.socket(VSOCK, socket.SOCK_STREAM),
    "make a socket of the internet": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "make one of its version 6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM),
    "ask for the machine's routes": lambda: socket.socket(ROUTES, socket.SOCK_RAW),
    "use the kernel's cryptography": lambda: socket.socket(CRYPTOGRAPHY, socket.SOCK_SEQPACKET),
    "use io_uring": lambda: system_call(IO_URING, 1, ctypes.create_string_buffer(120)),
    "leave memory behind": leave_memory,
    "leave a queue behind": leave_a_queue,
    "fill the machine's memory by /dev/shm": fill_shared_memory,
    "trace a process": lambda: with_a_child(trace),
    "read a process's memory": lambda: with_a_child(read_memory),
    "leave a key": lambda: system_call(ADD_KEY[platform.machine()], b"user", b"mine", b"x", 1, -4),
    "count events": lambda: system_call(PERF_EVENTS[platform.machine()], bytes(4) + b"\x80" + bytes(123), 0, -1, -1, 0),
    "load a program into the kernel": lambda: system_call(
        BPF[platform.machine()], 0, bytes([1, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1] + [0] * 59), 72
    ),
    "handle faults": lambda: system_call(USER_FAULTS[platform.machine()], 1),
    "be another system": lambda: succeed(LIBC.personality(ctypes.c_ulong(0x0040000))),
}


def be_told_that_temporary_files_may_be_written() -> None:
    """As compilers ask: otherwise they write to /tmp."""
    if not os.access(tempfile.gettempdir(), os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError


def copy_a_file() -> None:
    """With its mode and times."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        file.write_text("x")
        file.chmod(0o700)
        shutil.copy2(file, Path(folder) / "copy")
        subprocess.run(["cp", "-a", file, Path(folder) / "other"], check=True)


def share_memory() -> None:
    """With a semaphore, as `multiprocessing` does."""
    block = shared_memory.SharedMemory(create=True, size=1 << 20)
    block.close()
    block.unlink()
    with multiprocessing.get_context("fork").Lock():
        pass


def run_threads() -> None:
    threads = [threading.Thread(target=time.sleep, args=(0,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def use_devices() -> None:
    with Path("/dev/urandom").open("rb") as source:
        Path("/dev/null").write_bytes(source.read(16))


ALLOWED: dict[str, Callable[[], Any]] = {
    "write a temporary file": write_a_temporary_file,
    "be told that temporary files may be written": be_told_that_temporary_files_may_be_written,
    "copy a file": copy_a_file,
    "share memory": share_memory,
    "run threads": run_threads,
    "use devices": use_devices,
    "make a pair of sockets": socket.socketpair,
    "run a program": lambda: subprocess.run(["true"], check=True),
    "run Python": lambda: subprocess.run([sys.executable, "-c", "import msgspec"], check=True),
    "leave a process behind": lambda: subprocess.Popen(["sleep", LEFT_BEHIND_S]),
    "leave one in a session of its own": lambda: subprocess.Popen(["sleep", LEFT_BEHIND_S], start_new_session=True),
}


def succeeds(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except (OSError, RuntimeError, subprocess.SubprocessError):
        return False
    return True


def compile_a_program() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "program.cc"
        source.write_text('#include <cstdio>\nint main() { std::puts("x"); }')
        subprocess.run(["g++", "-O1", source, "-o", Path(folder) / "program"], check=True)
        subprocess.run([Path(folder) / "program"], check=True, stdout=subprocess.DEVNULL)


if shutil.which("g++"):
    ALLOWED["compile a program"] = compile_a_program


def done() -> list[str]:
    """Which of them succeed."""
    return [name for name, attempt in {**ATTEMPTS, **ALLOWED}.items() if succeeds(attempt)]

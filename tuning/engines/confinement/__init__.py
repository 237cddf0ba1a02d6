"""Confines the calling process, for good: it keeps access to the files that it needs, and to no network.

Whatever the kernel offers is used: Landlock for files and TCP (Linux 5.13; TCP from 6.7), a filter of system calls, and namespaces
of its own where the process may make them, for the network, processes, sockets and what Landlock doesn't cover of files. Containers
often forbid the latter. Children inherit it all.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace

from tuning.engines.wire.question import InForce, Reach

from . import landlock, namespaces, privileges, seccomp, system_calls

PROGRAMS = ("bin", "include", "lib", "lib32", "lib64", "libexec", "share")
"""Folders of programs and libraries. Not those that contain them: the site may be installed in /usr/local or /opt."""
SYSTEM = ("/", "/usr", "/usr/local")
OF_CUDA = ("nvvm", "targets")
"""Folders of NVIDIA's toolkits besides `PROGRAMS`. The first is in no other folder of programs."""
DRIVER = Path("/usr/local/nvidia")
"""Where containers often have the driver's libraries."""
MACHINE = ("/proc", "/sys")
"""What the kernel tells of the machine. Of other processes, Landlock hides what is private."""
CONFIGURATION = (
    "alternatives",
    "group",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "passwd",
)
"""In /etc: what the loader, compilers and Python read. All users may read them."""
GPUS = "nvidia*"
DEVICES = ("full", "null", "random", "urandom", "zero", GPUS, "shm")
"""In /dev."""
OF_MACHINE = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger")
"""By these a process that may write to them has the whole machine. Containers protect them."""


LARGEST_FILE = 4 << 30
"""Bytes of a file that such a process may write: more than any model or library has."""


def most_processes() -> int:
    """How many processes and threads it may have: an engine builds on each core, and TVM and XGBoost have a thread for each."""
    return 128 + 32 * (os.cpu_count() or 1)


def limit(memory_mb: int | None, cpu_s: int | None, *, quietly: bool) -> None:
    """Limit this process's address space in MiB and its processor time from now on. It dumps no core when a limit ends it."""
    if memory_mb is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    if cpu_s is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if quietly:
        os.nice(10)


def confine(reach: Reach) -> InForce:
    """From now on, reach nothing but code, temporary files and what `reach` names. Call it while there is one thread.

    It returns in a child of the process that called it, where namespaces are available.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    packages = _packages()
    reads = [*_code(packages), *map(Path, reach.reads)]
    writes = [Path(tempfile.gettempdir()), *map(Path, reach.writes)]
    in_force = _apart(reads, writes, network=reach.network)
    privileges.gain_none()
    if version := landlock.version():
        _lead_children_to(packages)
        landlock.restrict(reads, [*writes, *_devices(), *_names_of_threads()], tcp=reach.network)
        in_force = replace(in_force, files=f"Landlock {version}")
    return _filtered(in_force, network=reach.network)


def confine_in(scratch: str | None, reach: Reach) -> str:
    """As `confine`, with temporary files in `scratch` (by default a new folder). Returns what is in force, in one line."""
    tempfile.tempdir = os.environ["TMPDIR"] = scratch or tempfile.mkdtemp(prefix="tuneboard-")
    return sentences(confine(reach), network=reach.network)


def sentences(in_force: InForce, *, network: bool) -> str:
    """What is in force, in one line, for a process with or without network."""
    parts = {
        "Files": in_force.files,
        "Modes and times of files": in_force.metadata,
        "Network": "a tracker's devices" if network else in_force.network,
        "Processes": in_force.processes,
        "Shared memory": in_force.ipc,
        "System calls": in_force.calls,
    }
    return " ".join(f"{part}: {means or 'not confined'}." for part, means in parts.items())


def _apart(reads: list[Path], writes: list[Path], *, network: bool) -> InForce:
    """Enter namespaces, or else give up what can be given up without. Returns what is in force by that."""
    if apart := namespaces.enter(reads, writes, network=network):
        namespaces.limit_processes(most_processes())
        return InForce(
            files=None,
            metadata="read-only mounts" if apart.is_read_only else None,
            network=None if network else "network namespace",
            processes=f"process namespace, at most {most_processes()} processes and threads",
            ipc="IPC namespace",
        )
    has_left = not network and namespaces.leave_network()
    privileges.drop_outside()
    return InForce(files=None, network="network namespace" if has_left else None, processes=None)


def _filtered(in_force: InForce, *, network: bool) -> InForce:
    """Refuse system calls. This comes last: the other steps need them. Returns what is then in force."""
    if seccomp.restrict(system_calls.refused(network=network), system_calls.NUMBERS):
        means = "system call filter"
        return replace(
            in_force,
            network=in_force.network or (None if network else means),
            ipc=in_force.ipc or means,
            calls=means,
        )
    only_tcp = not network and landlock.version() >= landlock.TCP_SINCE
    return replace(in_force, network=in_force.network or ("Landlock, for TCP only" if only_tcp else None))


def _code(packages: list[Path]) -> list[Path]:
    """The packages of this program, Python's, and the system's. Not the folder that has ours: the site's data is in it, too."""
    shared = (
        {Path(path).resolve() for path in sys.path if path}
        - {path.resolve().parent for path in packages}
        - {Path.cwd()}
    )
    programs = [Path(prefix) / name for prefix in (*SYSTEM, sys.prefix, sys.base_prefix) for name in PROGRAMS]
    programs += [toolkit / name for toolkit in _toolkits() for name in (*PROGRAMS, *OF_CUDA)]
    environment = Path(sys.prefix) / "pyvenv.cfg"
    etc = [Path("/etc") / name for name in CONFIGURATION]
    return [*packages, *shared, *programs, environment, *map(Path, MACHINE), *etc]


def _toolkits() -> list[Path]:
    """NVIDIA's, where its installers put them, and the one on the PATH; and its driver."""
    installed = [*sorted(Path("/usr/local").glob("cuda*")), DRIVER]
    nvcc = shutil.which("nvcc")
    own = Path(nvcc).resolve().parents[1] if nvcc else None
    return [*installed, *([own] if own and (own / OF_CUDA[0]).is_dir() else [])]


def _packages() -> list[Path]:
    """Those that are loaded from the folder that has this one."""
    home = Path(__file__).parents[3]
    loaded = [module for name, module in sys.modules.items() if "." not in name and hasattr(module, "__path__")]
    return [Path(path) for module in loaded for path in module.__path__ if Path(path).parent == home]


def _lead_children_to(packages: list[Path]) -> None:
    """Interpreters that this process starts look for packages in folders that they may list. Ours isn't one."""
    folder = Path(tempfile.mkdtemp(prefix="packages-"))
    for package in packages:
        (folder / package.name).symlink_to(package)
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([others] if others else [])])


def _devices() -> list[Path]:
    return [path for name in DEVICES for path in Path("/dev").glob(name)]


def _names_of_threads() -> list[Path]:
    """CUDA's driver names its threads in /proc, and without that there is no GPU. A path there can't be allowed for later processes alone.

    In namespaces of its own, a process can change nothing else there; without them, only what its user may.
    """
    needed = any(Path("/dev").glob(GPUS)) and not any(os.access(path, os.W_OK) for path in OF_MACHINE)
    return [Path("/proc")] if needed else []

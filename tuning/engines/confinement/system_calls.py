"""System calls that a confined process is refused, because neither compilers, OpenMP, NumPy, XGBoost, PyTorch, TVM nor CUDA need them.

All others are allowed: a list of those that all versions of these programs need, on each machine, can't be had.
"""

from __future__ import annotations

import stat
from errno import EAFNOSUPPORT, ENOSYS, EOPNOTSUPP, EPERM
from socket import AF_INET, AF_INET6, AF_UNIX

from .seccomp import Condition, Rule

NAMESPACES = ("unshare", "setns")
"""Calls that make namespaces: there, code reaches much more of the kernel."""
MOUNTS = (
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "open_tree",
    "open_tree_attr",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
)
"""They could uncover what is covered."""
PROCESSES = ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp")
"""Other processes' memory and files."""
KERNEL = ("bpf", "perf_event_open", "userfaultfd", "fanotify_init", "lookup_dcookie", "modify_ldt", "syslog")
"""Parts of the kernel that have had many holes, and that nothing here needs."""
MACHINE = (
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "quotactl_fd",
    "sethostname",
    "setdomainname",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "vhangup",
    "ioperm",
    "iopl",
)
"""Only for who runs the machine: a container's root may have some of these rights."""
FILES = ("name_to_handle_at", "open_by_handle_at", "chown", "fchown", "lchown", "fchownat")
"""Files by number, past all folders; and owners."""
ATTRIBUTES = (
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "setxattrat",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "removexattrat",
    "file_setattr",
)
"""Landlock doesn't cover them. Programs that copy files go on without."""
MEMORY = (
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semop",
    "semtimedop",
    "semctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "mq_open",
    "mq_unlink",
    "memfd_secret",
)
"""Shared memory, semaphores and queues that outlive a process, or that it couldn't be seen to have."""
NEWER = ("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register", "vmsplice")
"""Their arguments are in memory, where a filter can't look, or they make calls past the filter. The C library uses the older calls then."""
KEYS = ("add_key", "request_key", "keyctl")
"""The kernel's store of keys, which is shared by all processes of a user."""

WORD = (1 << 32) - 1
NEW_NAMESPACES = 0x7E020000
"""Flags of clone(2): new mounts, control groups, host name, shared memory, users, processes and network."""
ASK_PERSONALITY = WORD
NETLINK = 16
"""Sockets by which the C library looks up the machine's addresses when it resolves a name."""
TERMINAL_INPUT, CONSOLE_INPUT = 0x5412, 0x541C
"""TIOCSTI and TIOCLINUX: they type into a terminal, whose shell isn't confined."""
PRIVILEGED = stat.S_ISUID | stat.S_ISGID
MODES = {
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "creat": 1,
    "open": 2,
    "openat": 3,
    "mknod": 1,
    "mknodat": 2,
}
"""Calls that give a file its mode, and which argument that is."""


def refused(*, network: bool) -> list[Rule]:
    """Return the rules for a process with or without network."""
    families = (AF_UNIX, AF_INET, AF_INET6, NETLINK) if network else (AF_UNIX,)
    return [
        *(Rule(call, EPERM) for call in (*NAMESPACES, *MOUNTS, *PROCESSES, *KERNEL, *MACHINE, *FILES)),
        *(Rule(call, EOPNOTSUPP) for call in ATTRIBUTES),
        *(Rule(call, ENOSYS) for call in (*MEMORY, *NEWER, *KEYS)),
        Rule("clone", EPERM, Condition(0, NEW_NAMESPACES, (0,), allows=True)),
        Rule("personality", EPERM, Condition(0, WORD, (ASK_PERSONALITY,), allows=True)),
        Rule("ioctl", EPERM, Condition(1, WORD, (TERMINAL_INPUT, CONSOLE_INPUT), allows=False)),
        *(Rule(call, EAFNOSUPPORT, Condition(0, WORD, families, allows=True)) for call in ("socket", "socketpair")),
        *(Rule(call, EPERM, Condition(place, PRIVILEGED, (0,), allows=True)) for call, place in MODES.items()),
        *(Rule(call, EPERM, _device(MODES[call])) for call in ("mknod", "mknodat")),
    ]


def _device(mode: int) -> Condition:
    return Condition(mode, stat.S_IFMT(WORD), (stat.S_IFCHR, stat.S_IFBLK), allows=False)


NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "creat": (85, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "file_setattr": (469, 469),
    "finit_module": (313, 273),
    "fremovexattr": (199, 16),
    "fsconfig": (431, 431),
    "fsetxattr": (190, 7),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lchown": (94, None),
    "lookup_dcookie": (212, 18),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "memfd_secret": (447, 447),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "request_key": (249, 218),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
"""Numbers of the calls on x86-64 and on 64-bit ARM. Some have none there."""

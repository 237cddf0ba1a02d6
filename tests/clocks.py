"""Clocks that are wrong: a library for LD_PRELOAD that moves what a process takes for the time of day.

Linux has no namespace for this clock, and Debian's faketime makes Python's `time.sleep` fail. Monotonic clocks stay as they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

SOURCE = """
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += {ahead_s};
    return failed;
}}

int gettimeofday(struct timeval *now, void *zone) {{
    struct timespec precise;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}}

time_t time(time_t *where) {{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}}
"""


def skewed(folder: Path, ahead_s: int) -> dict[str, str]:
    """What the environment of processes needs so that their clock is ahead by so much, or behind."""
    source, library = folder / "skew.c", folder / "skew.so"
    source.write_text(SOURCE.format(ahead_s=ahead_s))
    zig = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)]
    caches = {name: str(folder / "zig") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    subprocess.run(zig, env=os.environ | caches, check=True, capture_output=True)
    env = {"LD_PRELOAD": str(library)}
    asked = [sys.executable, "-c", "import time; print(time.time())"]
    told = float(subprocess.run(asked, env=os.environ | env, check=True, capture_output=True).stdout)
    assert abs(told - time.time() - ahead_s) < abs(ahead_s) / 2
    return env

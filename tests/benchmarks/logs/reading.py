"""Measured in a process of its own, which prints its figures as JSON: `python -m tests.benchmarks.logs.reading FILE REPEATS`.

With 0 repeats the log is only read, and the peak of the process's memory is printed.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tuning.logs.lines import read_lines
from tuning.logs.opening import open_logs
from tuning.logs.sources import Limits, sources


def imported(path: str) -> int:
    """Read as an import does: every trial, its task and the digest."""
    (log,) = open_logs(sources(path)).logs
    count = sum(len(batch) for batch in log.batches())
    assert log.digest()
    return count


def json_alone(path: str) -> int:
    """Each line of the file into Python's objects, by msgspec, and nothing else."""
    decode, count = msgspec.json.Decoder().decode, 0
    with open(path, "rb") as file:  # noqa: PTH123 - as plain as can be
        for lines, _ in read_lines(file, Limits().line_bytes):
            for line in lines:
                decode(line)
            count += len(lines)
    return count


def cpu_s(work: Callable[[str], int], path: str) -> float:
    """CPU seconds: other work on the machine changes them little."""
    began = time.process_time()
    work(path)
    return time.process_time() - began


def main(path: str, repeats: int) -> None:
    """Prints pairs of CPU seconds, taken in turn, or the peak in bytes."""
    if repeats:
        pairs = [(cpu_s(json_alone, path), cpu_s(imported, path)) for _ in range(repeats)]
        sys.stdout.write(json.dumps(pairs))
        return
    imported(path)
    sys.stdout.write(json.dumps(peak_bytes()))


def peak_bytes() -> int:
    """The most memory that this process had. `getrusage` would count what the process that started it had, too."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) * 1024


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""The run's record file, whose line n is trial n, in the engine's own format. No TVM here."""

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

RECORDS = "records.json"
LOST = "# lost"
"""Stands in for a lost record. TVM skips lines that begin so."""


class Recorded(NamedTuple):
    """A line of the file. `workload` is None for a lost record, `latency_s` for a failed trial."""

    workload: Optional[str]
    error_no: int
    latency_s: Optional[float]
    text: str


class RecordFile:
    """`read_workload` finds what identifies a task in a parsed line."""

    def __init__(self, path: Path, read_workload: Callable[[Dict[str, Any]], str]) -> None:
        self.path = path
        self._read_workload = read_workload
        path.touch()

    def repair(self) -> Optional[str]:
        """Drop an incomplete last line, which a killed process may leave; return what was done.

        Its trial was never reported: the event is sent after the whole line was written.
        """
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        torn = len(data) - whole
        if not torn:
            return None
        if _is_json(data[whole:]):
            self.append("")
            return f"{self.path.name}: added the missing newline to the last line"
        os.truncate(str(self.path), whole)  # Rather than written anew: a backup may be reading the file.
        return f"{self.path.name}: dropped an incomplete last line of {torn} bytes"

    def append(self, line: str) -> None:
        """Hand the whole line to the system, which keeps it even if this process is killed."""
        with self.path.open("a") as file:
            file.write(line + "\n")

    def pad(self, lines: int) -> None:
        """Append lines for trials that were counted but whose records were lost, for example in a power cut."""
        for _ in range(lines):
            self.append(LOST)

    def lines(self) -> List[Recorded]:
        """All lines. Raises `ValueError` naming one that can't be read."""
        return [self._recorded(number, line) for number, line in enumerate(self.path.read_text().splitlines(), start=1)]

    def _recorded(self, number: int, line: str) -> Recorded:
        if line.startswith("#"):
            return Recorded(None, 0, None, line)
        try:
            record = json.loads(line)
            costs, error_no = (record["r"] if "r" in record else record["result"])[:2]
            latency_s = sum(costs) / len(costs) if error_no == 0 else None
            return Recorded(self._read_workload(record), error_no, latency_s, line)
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise ValueError(f"{self.path.name}, line {number} isn't a tuning record: {error}") from error


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text.decode())
    except ValueError:
        return False
    return True

"""What a tuning record may say before TVM reads it: a record is a program, and TVM runs whatever it says.

A trace can carry LLVM's code in an annotation, or any object of TVM's in a string of JSON; a workload can call any function of the
process. So every record is checked, wherever it comes from and wherever it was stored: what isn't on the lists of this package is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import older, traces
from .parsing import RecordRefused

_CHECKS: Mapping[str, Callable[[bytes], None]] = {
    "auto_scheduler": older.check_auto_scheduler,
    "autotvm": older.check_autotvm,
    "meta_schedule": traces.check_record,
}
"""The check of each engine's records."""


def why_refused(engine: str, text: str) -> str | None:
    """The reason why the record, as in `TrialMeasured.record`, can't be used; None if all that it can do is schedule a function."""
    try:
        _CHECKS[engine](text.encode())
    except RecordRefused as refused:
        return str(refused)
    return None


__all__ = ("RecordRefused", "why_refused")

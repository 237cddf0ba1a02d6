"""Builds records of the run once more, so that they can be measured again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms

from tuning.engines import records
from tuning.engines.measuring.arguments import described
from tuning.engines.measuring.local import LocalBuilder
from tuning.engines.measuring.outcomes import Failure
from tuning.engines.wire.errors import in_one_line

from .built import Built

logger = logging.getLogger("tuneboard")


def rebuild(
    texts: Sequence[str], cold_bytes: Sequence[int], builder: LocalBuilder, target: Any
) -> Iterator[tuple[int, Built]]:
    """As `tried`, without those that fail, which are logged."""
    for index, outcome in tried(texts, cold_bytes, builder, target):
        if isinstance(outcome, Failure):
            logger.warning("A record couldn't be built again: %s", outcome.text)
        else:
            yield index, outcome


def tried(
    texts: Sequence[str], cold_bytes: Sequence[int], builder: LocalBuilder, target: Any
) -> Iterator[tuple[int, Built | Failure]]:
    """Build records, each given as JSON `[workload, record]`, and how cold it is to be measured, as in `Built`.

    Yields each one's index with what was built, or why nothing was.
    """
    candidates = {}
    for index, text in enumerate(texts):
        try:
            candidates[index] = candidate_of(text)
        except Exception as error:  # noqa: BLE001  TVM raises errors of any kind
            yield index, Failure("build", f"TVM can't apply it: {in_one_line(error)}")
    device = str(tvm.runtime.Device(target.get_target_device_type(), 0).type)
    keys, mods = list(candidates), [tvm.ir.save_json(candidate.sch.mod) for candidate in candidates.values()]
    for place, outcome in builder.build(mods, str(target)):
        index = keys[place]
        if isinstance(outcome, Failure):
            yield index, outcome
        else:
            yield index, Built(outcome, device, described(candidates[index]), cold_bytes[index])


def candidate_of(text: str) -> Any:
    """TVM's candidate of a record, given as JSON `[workload, record]`. Raises errors of any kind if TVM can't apply it."""
    record = records.check(text)
    return record.on(ms.database.Workload(records.function_of(record))).as_measure_candidate()

"""Builds records of the run once more, so that they can be measured again."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms

from tuning.engines.measuring.arguments import plain
from tuning.engines.measuring.local import LocalBuilder
from tuning.engines.measuring.outcomes import Failure

from .built import Built

logger = logging.getLogger("tuneboard")


def rebuild(texts: Sequence[str], builder: LocalBuilder, target: Any) -> Iterator[tuple[int, Built]]:
    """Build records, each given as JSON `[workload, record]`. Yields each one's index; those that fail are left out, and logged."""
    candidates = [_candidate(text) for text in texts]
    device = str(tvm.runtime.Device(target.get_target_device_type(), 0).type)
    mods = [tvm.ir.save_json(candidate.sch.mod) for candidate in candidates]
    for index, outcome in builder.build(mods, str(target)):
        if isinstance(outcome, Failure):
            logger.warning("A record couldn't be built again: %s", outcome.text)
        else:
            yield index, Built(outcome, device, plain(candidates[index].args_info))


def _candidate(text: str) -> Any:
    workload, record = json.loads(text)
    return ms.database.TuningRecord.from_json(record, ms.database.Workload.from_json(workload)).as_measure_candidate()

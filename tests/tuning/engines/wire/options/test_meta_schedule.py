"""MetaSchedule's options."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tuning.engines.wire.options.meta_schedule import Options


@pytest.mark.parametrize(
    "options",
    [
        {"trials_per_batch": 0},
        {"trials_per_batch": 1025},
        {"seed": -1},
        {"build_timeout_s": 0},
        {"strategy": "guess"},
        {"nummer": 3},
    ],
)
def test_options_out_of_bounds_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(options, Options)

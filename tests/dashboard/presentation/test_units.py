from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.presentation import networks, units
from tuning import wording

BASE = Path(__file__).resolve().parents[3]
TABLE: dict[str, list[list[Any]]] = json.loads((BASE / "tests/data/units.json").read_text())
CASES = [(name, value, shown) for name, rows in TABLE.items() for value, shown in rows]


def plain(shown: Any) -> Any:
    return shown.replace(wording.SPACE, " ") if isinstance(shown, str) else shown


@pytest.mark.parametrize(("name", "value", "shown"), CASES)
def test_it_writes_a_quantity(name: str, value: Any, shown: Any) -> None:
    assert plain(getattr(units, name)(value)) == shown


def test_compared_speeds_share_one_unit() -> None:
    shown = [plain(units.speed_a_second(speed)) for speed in (1.484, 0.5536, None)]
    assert shown == ["1.48 /s", "0.554 /s", units.UNKNOWN]


@pytest.mark.browser
def test_it_writes_the_same_in_the_browser(page: Any) -> None:
    source = (BASE / "static/js/common/units.js").read_text()
    script = """async ([source, cases]) => {
        const units = await import(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
        return cases.map(([name, value]) => units[name](value));
    }"""
    answers = page.evaluate(script, [source, [[name, value] for name, value, _ in CASES]])
    assert [plain(answer) for answer in answers] == [shown for _, _, shown in CASES]


def test_it_writes_a_tensor() -> None:
    assert networks.shape({"name": "x", "shape": [1, 784], "dtype": "float32"}) == "(1, 784) float32"

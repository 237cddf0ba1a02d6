from __future__ import annotations

from pathlib import Path

import pytest

from tuning.engines.old_tvm.records import LOST, Recorded, RecordFile

VALID = '{"i": [["key"], []], "r": [[0.5, 1.5], 0, 1, 1], "v": "v0.6"}'
FAILED = '{"i": [["key"], []], "r": [[1e+10], 2, 1, 1], "v": "v0.6"}'


def _file(path: Path, text: str) -> RecordFile:
    path.write_text(text)
    return RecordFile(path, lambda record: str(record["i"][0][0]))


def test_it_reads_what_became_of_each_trial(tmp_path: Path) -> None:
    records = _file(tmp_path / "records.json", f"{VALID}\n{FAILED}\n{LOST}\n")
    assert records.lines() == [
        Recorded("key", 0, 1.0, VALID),
        Recorded("key", 2, None, FAILED),
        Recorded(None, 0, None, LOST),
    ]


@pytest.mark.parametrize(
    ("torn", "kept", "message"),
    [
        (VALID[:20], f"{VALID}\n", "dropped an incomplete last line of 20 bytes"),
        (FAILED, f"{VALID}\n{FAILED}\n", "added the missing newline to the last line"),
        ("", f"{VALID}\n", None),
    ],
)
def test_it_repairs_a_torn_last_line(torn: str, kept: str, message: str | None, tmp_path: Path) -> None:
    records = _file(tmp_path / "records.json", f"{VALID}\n{torn}")
    assert records.repair() == (message and f"records.json: {message}")
    assert records.path.read_text() == kept
    records.append(VALID)
    assert records.path.read_text() == f"{kept}{VALID}\n", "a line is appended after what was kept"


@pytest.mark.parametrize("bad", ["{}", '{"i": [["key"], []], "r": [[], 0, 1, 1]}', "[1]"])
def test_it_names_a_line_that_isnt_a_record(bad: str, tmp_path: Path) -> None:
    records = _file(tmp_path / "records.json", f"{VALID}\n{bad}\n")
    with pytest.raises(ValueError, match=r"records\.json, line 2 isn't a tuning record"):
        records.lines()

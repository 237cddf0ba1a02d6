"""The benchmark of imports, with logs that are small."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from tests.benchmarks.logs.generating import LOGS, lines
from tests.benchmarks.logs.report import Finding, Stored, markdown, stored_markdown
from tuning.logs.lines import LineParser
from tuning.logs.neutral import Trial


@pytest.mark.parametrize("name", LOGS)
def test_generated_lines_are_records(name: str) -> None:
    parser = LineParser(name)
    found = parser.parse_lines(line.rstrip(b"\n") for line in lines(name, 50))
    assert all(isinstance(each, Trial) for each in found)
    assert len(found) == 50
    assert len(parser.tasks) == 1


def test_generated_lines_are_the_same_each_time() -> None:
    assert list(lines("AutoTVM", 20)) == list(lines("AutoTVM", 20))


def test_it_divides_ours_by_json_alone() -> None:
    finding = Finding("AutoTVM", 1000, 2_000_000, [(1.0, 1.5), (2.0, 2.2), (1.0, 1.4)], 100, 40_000_000, 41_000_000)
    row = markdown([finding]).splitlines()[2]
    assert row == "| AutoTVM | 1,000 | 2 | 1.00 | 1.50 | 1.40 (1.10 to 1.50) | 40 at 100, 41 at 1,000 |"


def test_it_measures_a_small_log() -> None:
    out = io.StringIO()
    call_command("bench_import", "--logs", "AutoTVM", "--lines", "200", "--repeats", "2", "--json", stdout=out)
    (found,) = json.loads(out.getvalue())
    assert (found["lines"], found["small_lines"], len(found["pairs"])) == (200, 20, 2)
    assert min(found["peak_bytes"], found["small_peak_bytes"]) > 1_000_000


def test_bad_options_are_refused() -> None:
    with pytest.raises(CommandError, match="at least"):
        call_command("bench_import", "--lines", "1")


@pytest.mark.rare
def test_it_imports_into_a_database() -> None:
    out = io.StringIO()
    call_command("bench_import", "--databases", "sqlite", "--lines", "200", "--json", stdout=out)
    (found,) = json.loads(out.getvalue())
    assert (found["database"], found["lines"], found["small_lines"]) == ("sqlite", 200, 20)
    assert min(found["json_s"], found["cpu_s"], found["elapsed_s"]) > 0
    assert min(found["peak_bytes"], found["small_peak_bytes"]) > 1_000_000


def test_the_row_of_a_database() -> None:
    found = Stored("sqlite", 1000, 2.0, 5.0, 61.7, 100, 40_000_000, 41_000_000)
    row = stored_markdown([found]).splitlines()[2]
    assert row == "| sqlite | 1,000 | 2.00 | 5.00 | 2.50 | 62 | 40 at 100, 41 at 1,000 |"

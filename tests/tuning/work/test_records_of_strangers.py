"""A stranger's records with native code: imported, stored by an earlier version, compiled, tuned from and downloaded, they leave no trace."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import LiveSite

pytestmark = pytest.mark.tvm
CANARY = "tuneboard_canary"
CODE = f'"module asm \\".globl {CANARY}\\\\0A{CANARY}: ret\\"\\n"'
CONV = ("conv2d", "--size", "8", "--channels", "16", "--trials", "4", "--strategy", "replay-trace", "--seed", "1")
STORE = """
import json
from tuning.models import Record, Run
run, texts = Run.objects.get(pk={run}), json.load(open({path!r}))
Record.objects.filter(task__run=run).delete()
for task, text in zip(run.tasks.order_by("index"), texts):
    Record.objects.create(task=task, trial=1, latency_s=1e-9, text=text)
    type(task).objects.filter(pk=task.pk).update(best_latency_s=1e-9, best_trial=1)
"""


@pytest.fixture
def site(new_site: LiveSite) -> Iterator[LiveSite]:
    yield new_site
    new_site.close()


def work_dir(site: LiveSite, run: int) -> Path:
    (folder,) = (path for path in (site.var / "runs").glob(f"{run}-*") if path.is_dir())
    return folder


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def forged(site: LiveSite, run: int, folder: Path) -> Path:
    """The run's database, each record with LLVM's code and a latency that is a thousand times too low."""
    source = work_dir(site, run)
    folder.mkdir()
    (folder / "database_workload.json").write_bytes((source / "database_workload.json").read_bytes())
    records = lines(source / "database_tuning_record.json")
    for _, record in records:
        record[1] = [seconds / 1000 for seconds in record[1] or [1e-3]]
        instructions = record[0][0]
        place = next(place for place, one in enumerate(instructions) if one[0] == "GetLoops") + 1
        loop = instructions[place - 1][3][0]
        instructions.insert(place, ["Annotate", [loop, CODE], ["pragma_import_llvm"], []])
        record[0][1] = [[nth + (nth >= place), value] for nth, value in record[0][1]]
    (folder / "database_tuning_record.json").write_text("".join(f"{json.dumps(line)}\n" for line in records))
    return folder


def claimed_only(site: LiveSite, run: int, folder: Path) -> Path:
    """The run's database as it is, but for latencies that are a thousand times too low."""
    source = work_dir(site, run)
    folder.mkdir()
    (folder / "database_workload.json").write_bytes((source / "database_workload.json").read_bytes())
    records = lines(source / "database_tuning_record.json")
    for _, record in records:
        record[1] = [1e-9]
    (folder / "database_tuning_record.json").write_text("".join(f"{json.dumps(line)}\n" for line in records))
    return folder


def store_as_before(site: LiveSite, run: int, database: Path, path: Path) -> None:
    """Have the imported run's rows be what a version stored that checked nothing."""
    workloads = lines(database / "database_workload.json")
    records = dict(lines(database / "database_tuning_record.json"))
    path.write_text(json.dumps([json.dumps([workloads[index], record]) for index, record in records.items()]))
    site.manage("shell", "-c", STORE.format(run=run, path=str(path)))


def has_canary(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def test_native_code_leaves_no_trace(site: LiveSite, tmp_path: Path) -> None:
    honest = json.loads(site.manage("tune", *CONV, "--json"))
    database = forged(site, honest["id"], tmp_path / "forged")
    refusal = site.refusal("import_log", str(database), "--network", "conv2d")
    assert "can't be used: its annotation 'pragma_import_llvm' isn't one that records may have" in refusal
    claimed = claimed_only(site, honest["id"], tmp_path / "claimed")
    imported = json.loads(site.manage("import_log", str(claimed), "--network", "conv2d", "--json"))
    (run,) = {made["id"] for made in imported}
    store_as_before(site, run, database, tmp_path / "texts.json")

    out = tmp_path / "library"
    compilation = json.loads(
        site.manage("compile", str(honest["id"]), "--best-of", "library", "--out", str(out), "--json")
    )
    assert compilation["verified"]
    assert {used["run"] for used in compilation["used"]} == {honest["id"]}, "what was claimed isn't what was measured"
    again = json.loads(site.manage("tune", *CONV[:-1], "2", "--json", "--imported-records", "true"))
    assert again["trials_failed"] < again["trials_done"]

    site.manage("export_library", str(tmp_path / "export.zip"), "--imported")
    with zipfile.ZipFile(tmp_path / "export.zip") as archive:
        archive.extractall(tmp_path / "exported")
    assert lines(tmp_path / "exported" / "database_tuning_record.json")
    for folder in (out, tmp_path / "exported", site.var / "compilations", work_dir(site, again["id"])):
        assert has_canary(folder) == []

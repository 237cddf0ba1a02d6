from __future__ import annotations

import ast
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.client import tuneboard
from tests.dashboard.client.site import Site, serving
from tests.dashboard.client.tuners import AutoTVMTask, auto_scheduler_batch, autotvm_batch, meta_schedule_batch

SOURCE = Path(tuneboard.__file__)
ABOUT: dict[str, Any] = {"network": "mlp", "name": "my run"}


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site()) as site:
        yield site


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name, value in {"TICK_S": 0.02, "BEAT_S": 0.05, "TIMEOUT_S": 0.5, "LONGEST_PAUSE_S": 0.1}.items():
        monkeypatch.setattr(tuneboard, name, value)
    monkeypatch.setenv("TUNEBOARD_SPOOL", str(tmp_path / "spool"))
    tuneboard._given.clear()
    tuneboard._said.clear()
    yield
    for given in list(tuneboard._given.values()):
        given.close(0.5)


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def spooled() -> list[Path]:
    return list(Path(os.environ["TUNEBOARD_SPOOL"]).glob("*"))


def test_it_keeps_to_python_3_6_and_the_standard_library() -> None:
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 6))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    assert not {"dataclasses", "contextvars", "__future__"} & imported, "newer than 3.6"


class TestWhatIsSent:
    def test_autotvm(self, site: Site, tvm: Any) -> None:
        task = AutoTVMTask()
        callback = tuneboard.callback(site.url, "secret", tasks=[task], task_weights=[3], **ABOUT)
        callback(*autotvm_batch(task, 3))
        assert callback.close()
        (begun,) = site.begun
        known = {"engine": "autotvm", "network": "mlp", "name": "my run", "target": "llvm -keys=cpu"}
        assert known.items() <= begun.items()
        assert begun["versions"]["apache-tvm"] == "0.9.dev0"
        assert "secret" not in json.dumps(begun)
        (sent,) = site.tasks.values()
        assert {name: sent[name] for name in ("name", "flop", "weight")} == {
            "name": "dense_nopack.x86",
            "flop": 16384.0,
            "weight": 3,
        }
        good, _, bad = site.trials
        assert (good["costs_s"], good["at"], good["error_no"]) == ([1e-3, 3e-3], 1e9, 0)
        assert json.loads(good["record"])["input"] == ["llvm -keys=cpu", "dense_nopack.x86"]
        assert (bad["error_no"], bad["error"]) == (4, "Traceback …\nno such device")
        assert "costs_s" not in bad
        assert site.ends == [{"status": "finished"}]
        assert spooled() == []

    def test_auto_scheduler(self, site: Site, tvm: Any) -> None:
        policy, inputs, results = auto_scheduler_batch(3)
        callback = tuneboard.auto_scheduler_callback(
            site.url, "secret", tasks=[inputs[0].task], task_weights=[2], **ABOUT
        )
        callback.callback(policy, inputs, results)
        callback.callback(*auto_scheduler_batch(3))
        assert callback.close()
        (task,) = site.tasks.values()
        assert (task["name"], task["weight"], task["flop"]) == ("vm_mod_fused_nn_dense", 2, 16384.0)
        assert [trial.get("costs_s") for trial in site.trials] == [[2e-3], [2e-3], None] * 2
        assert site.trials[2]["error"] == "nvcc: no"
        assert site.trials[1]["record"] == '{"i": 1}'

    def test_meta_schedule(self, site: Site, tvm: Any) -> None:
        callback = tuneboard.meta_schedule_callback(site.url, "secret", **ABOUT)
        before = time.time()
        callback.apply(*meta_schedule_batch(3))
        assert callback.close()
        assert [(task["name"], task["weight"]) for task in site.tasks.values()] == [("softmax", 1), ("fused_dense", 3)]
        assert site.tasks["1"]["workload"] == '["6", "AAAA"]'
        good, _, bad = site.trials
        assert before <= good["at"] <= time.time()
        assert json.loads(good["record"]) == [[[], []], [2e-3], {"kind": "llvm"}, []]
        assert (bad["error_kind"], bad["error"]) == ("build", "no such intrinsic")

    def test_a_callback_inside_the_loop_over_tasks_makes_one_run(self, site: Site, tvm: Any) -> None:
        for shape in (64, 128, 256):
            task = AutoTVMTask(args=(("TENSOR", (1, shape), "float32"),))
            tuneboard.callback(site.url, "secret", **ABOUT)(*autotvm_batch(task, 2))
        assert tuneboard.callback(site.url, "secret", **ABOUT).close()
        assert len(site.begun) == 1
        assert len(site.tasks) == 3
        assert [trial["number"] for trial in site.trials] == [1, 2, 3, 4, 5, 6]

    def test_another_target_is_another_run(self, site: Site, tvm: Any) -> None:
        callback = tuneboard.callback(site.url, "secret", stream="mine", **ABOUT)
        for target in ("llvm", "cuda"):
            callback(*autotvm_batch(AutoTVMTask(target=target), 1))
        assert callback.close()
        keys = {begun["target"]: begun["stream"] for begun in site.begun}
        assert keys["llvm"] == "mine"
        assert keys["cuda"].startswith("mine-")

    def test_what_is_too_long_is_cut_or_left_out(self, site: Site, tvm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tuneboard, "LONGEST_TEXT", 20)
        monkeypatch.setattr(tuneboard, "LONGEST_RECORD", 20)
        callback = tuneboard.callback(site.url, "secret")
        callback(*autotvm_batch(AutoTVMTask(), 3))
        assert callback.close()
        assert site.trials[2]["error"] == "Traceback \n…\nuch device"
        assert "record" not in site.trials[0]


class TestASiteThatIsAway:
    def test_the_tuning_goes_on_and_everything_is_sent_later(
        self, tvm: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        site, task = Site(), AutoTVMTask()
        with serving(site):
            callback = tuneboard.callback(site.url, "secret")
            callback(*autotvm_batch(task, 2))
            until(lambda: len(site.trials) == 2)
        for first in range(2, 22, 2):
            callback(*autotvm_batch(task, 2, first))
        until(lambda: caplog.records)
        with serving(site):
            until(lambda: len(site.trials) == 22)
            assert callback.close()
        assert [trial["number"] for trial in site.trials] == [*range(1, 23)]
        assert len(caplog.records) == 1, "said once"

    def test_an_answer_that_is_lost_counts_nothing_twice(self, site: Site, tvm: Any) -> None:
        site.loses_answers = 3
        callback = tuneboard.callback(site.url, "secret")
        for first in range(0, 20, 2):
            callback(*autotvm_batch(AutoTVMTask(), 2, first))
        assert callback.close()
        assert [trial["number"] for trial in site.trials] == [*range(1, 21)]

    def test_a_site_that_lost_trials_gets_them_again(self, site: Site, tvm: Any) -> None:
        """It was restored from a backup, for example."""
        callback = tuneboard.callback(site.url, "secret")
        callback(*autotvm_batch(AutoTVMTask(), 6))
        until(lambda: len(site.trials) == 6)
        (session,) = site.sessions.values()
        del session["trials"][2:]
        callback(*autotvm_batch(AutoTVMTask(), 2, 6))
        assert callback.close()
        assert [trial["number"] for trial in site.trials] == [*range(1, 9)]

    def test_a_slow_site_costs_the_tuner_nothing(self, site: Site, tvm: Any) -> None:
        site.delay_s = 0.3
        callback = tuneboard.callback(site.url, "secret")
        callback(*autotvm_batch(AutoTVMTask(), 2))
        until(lambda: site.begun)
        callback(*autotvm_batch(AutoTVMTask(), 2, 2))
        assert site.sent < 4, "the callback didn't wait for the answer"
        assert callback.close()
        assert len(site.trials) == 4

    def test_close_gives_up_in_time_and_keeps_the_file(self, site: Site, tvm: Any, caplog: Any) -> None:
        site.refusal = 401, "Sign in."
        callback = tuneboard.callback(site.url, "wrong")
        callback(*autotvm_batch(AutoTVMTask(), 2))
        assert not callback.close(0.3)
        assert len(spooled()) == 1
        messages = [record.getMessage() for record in caplog.records]
        assert sum("Sign in." in message for message in messages) == 1
        assert any(str(spooled()[0]) in message for message in messages)

    def test_a_site_that_wants_no_more_ends_the_stream_and_not_the_tuning(
        self, site: Site, tvm: Any, caplog: Any
    ) -> None:
        callback = tuneboard.callback(site.url, "secret")
        callback(*autotvm_batch(AutoTVMTask(), 2))
        until(lambda: site.trials)
        site.refusal = 409, "The run was deleted."
        callback(*autotvm_batch(AutoTVMTask(), 2, 2))
        until(lambda: not spooled())
        callback(*autotvm_batch(AutoTVMTask(), 2, 4))
        assert callback.close()
        assert "The run was deleted." in caplog.text


class TestWhatGoesWrongHere:
    def test_nothing_is_raised_and_it_is_said_once(self, site: Site, tvm: Any, caplog: Any) -> None:
        callback = tuneboard.callback(site.url, "secret")
        for _ in range(3):
            callback("tuner", [object()], [object()])
        assert len(caplog.records) == 1
        assert "AttributeError" in caplog.text

    def test_without_a_folder_it_keeps_what_it_has_in_memory(
        self, site: Site, tvm: Any, tmp_path: Path, caplog: Any
    ) -> None:
        (tmp_path / "file").write_text("")
        callback = tuneboard.callback(site.url, "secret", spool=str(tmp_path / "file" / "folder"))
        callback(*autotvm_batch(AutoTVMTask(), 4))
        assert callback.close()
        assert len(site.trials) == 4
        assert "memory" in caplog.text

    def test_a_misspelled_option_is_refused_at_once(self) -> None:
        with pytest.raises(TypeError, match="netwrok"):
            tuneboard.callback("http://127.0.0.1:9", "secret", netwrok="mlp")


class TestStop:
    def test_it_raises_in_the_callback(self, site: Site, tvm: Any) -> None:
        callback = tuneboard.callback(site.url, "secret")
        callback(*autotvm_batch(AutoTVMTask(), 2))
        site.stop = True
        until(lambda: next(iter(callback._streams.values())).stop)
        with pytest.raises(tuneboard.StopRequested):
            callback(*autotvm_batch(AutoTVMTask(), 2, 2))
        assert tvm["scope"].in_tuning is False
        assert callback.close()
        assert len(site.trials) == 4, "the batch in which it stopped counts"
        assert site.ends == [{"status": "stopped"}]

    def test_a_script_may_go_on(self, site: Site, tvm: Any) -> None:
        site.stop = True
        callback = tuneboard.callback(site.url, "secret", stop=False)
        for first in range(0, 8, 2):
            callback(*autotvm_batch(AutoTVMTask(), 2, first))
            until(lambda: len(site.trials) > first)  # noqa: B023
        assert callback.close()
        assert site.ends == [{"status": "finished"}]


SCRIPT = """
import os, sys, time
sys.path[:0] = [{root!r}]
from dashboard.client import tuneboard
from tests.dashboard.client.tuners import AutoTVMTask, autotvm_batch
tuneboard.TICK_S = 0.02
callback = tuneboard.callback({url!r}, "secret", name="script")
for first in range(0, 6, 2):
    callback(*autotvm_batch(AutoTVMTask(), 2, first))
{end}
"""


def run_script(url: str, end: str) -> subprocess.CompletedProcess[str]:
    code = SCRIPT.format(root=str(SOURCE.parents[2]), url=url, end=end)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


class TestProcesses:
    def test_a_script_that_ends_sends_the_rest(self, site: Site) -> None:
        assert run_script(site.url, "").returncode == 0
        assert len(site.trials) == 6
        assert site.ends == [{"status": "finished"}]

    def test_a_script_that_fails_says_why(self, site: Site) -> None:
        assert run_script(site.url, "raise ValueError('no such layer')").returncode == 1
        assert site.ends == [{"status": "failed", "error": "ValueError: no such layer"}]

    def test_what_a_killed_script_left_is_sent_by_the_next(self, tvm: Any) -> None:
        site = Site()
        with serving(site):
            pass
        script = run_script(site.url, "time.sleep(0.5); os.kill(os.getpid(), 9)")
        assert script.returncode == -9
        assert len(spooled()) == 1
        with serving(site):
            callback = tuneboard.callback(site.url, "secret", name="next")
            callback(*autotvm_batch(AutoTVMTask(), 2))
            until(lambda: site.ends)
            assert callback.close()
        assert [begun["name"] for begun in site.begun] == ["next", "script"]
        assert len(site.trials) == 8
        assert {"status": "interrupted"} in site.ends
        assert spooled() == []

    def test_it_is_also_a_command_that_sends_what_is_left(self) -> None:
        site = Site()
        with serving(site):
            pass
        assert run_script(site.url, "callback.close(0.5)").returncode == 0
        command = [sys.executable, str(SOURCE), site.url]
        away = subprocess.run(
            command, env={**os.environ, "TUNEBOARD_TOKEN": "secret"}, capture_output=True, text=True, check=False
        )
        assert away.returncode == 1
        assert "refused" in away.stderr
        with serving(site):
            subprocess.run(command, env={**os.environ, "TUNEBOARD_TOKEN": "secret"}, check=True)
        assert len(site.trials) == 6
        assert site.ends == [{"status": "finished"}]

    def test_a_torn_last_line_is_left_out(self, tvm: Any, tmp_path: Path) -> None:
        site = Site()
        with serving(site):
            pass
        run_script(site.url, "callback.close(0.1)")
        (file,) = spooled()
        whole = [line for line in file.read_bytes().splitlines(keepends=True) if b'"end"' not in line]
        file.write_bytes(b"".join(whole[:-1]) + whole[-1][:20])
        logging.disable()
        with serving(site):
            assert tuneboard.send_spooled(site.url, "secret") == 0
        logging.disable(logging.NOTSET)
        assert len(site.trials) == 5
        assert site.ends == [{"status": "interrupted"}]

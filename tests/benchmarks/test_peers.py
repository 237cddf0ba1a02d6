"""`bench_web --peers`: a fake peer with its own server, and the real one from the tests' requirements."""

from __future__ import annotations

import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import CommandError, call_command

from tests.benchmarks.web.peers import benchmark, table
from tests.benchmarks.web.peers.catalog import MLFLOW, OPTUNA, PEERS, Peer, Question, Request
from tests.benchmarks.web.peers.measuring import AGAIN, JOURNAL, SQLITE, Asked, Environment, Setting, ask
from tests.benchmarks.web.questions import UNKNOWN, Answers
from tests.benchmarks.web.report import Findings, markdown

pytestmark = pytest.mark.rare
ENOUGH_S = 120.0
FILLER = """
import sys, time
way, store, trials = sys.argv[1:]
if way == "endless":
    time.sleep(600)
if way == "broken":
    raise SystemExit("no space left")
lines = open(trials).read().splitlines()
open(store, "w").write("x" * len(lines))
print("a line of its own")
print(len(lines))
"""
SERVER = """
import http.server, subprocess, sys, time
if "refuses" in open(sys.argv[1]).read():
    raise SystemExit("the store is too old")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("child.pid", "w").write(str(child.pid))

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/slow":
            time.sleep(600)
        size = int(self.path.rpartition("=")[2]) if "=" in self.path else 0
        self.send_response(500 if self.path == "/wrong" else 200)
        self.end_headers()
        self.wfile.write(b"x" * size)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""


def question(path: str, way: str = "quick", body: dict[str, object] | None = None) -> Question:
    return Question(f"what {path} gives", way, lambda key: Request(f"{path}{key}" if "=" in path else path, body))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment where a package `fake-peer` is installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "fake_peer-1.2.dist-info").mkdir()
    (packages / "fake_peer-1.2.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: fake-peer\nVersion: 1.2\n")
    return folder


@pytest.fixture
def peer(tmp_path: Path) -> Peer:
    filler, server = tmp_path / "fill.py", tmp_path / "serve.py"
    filler.write_text(FILLER)
    server.write_text(SERVER)

    def serve(environment: Path, store: str, port: int) -> list[str]:
        return [str(environment / "bin/python"), str(server), store, str(port)]

    return Peer("fake-peer", filler, files=True, serve=serve, ready="/", questions=(question("/size="),))


@pytest.fixture
def trials_file(tmp_path: Path) -> Path:
    path = tmp_path / "trials.csv"
    path.write_text("0,1e-3,0.5\n1,,0.7\n0,2e-3,0.9\n")
    return path


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A folder for the peer's files. After the test, the process that the server started must have ended."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    yield folder
    if (pid := folder / "child.pid").exists():
        assert not psutil.pid_exists(int(pid.read_text()))


@pytest.fixture
def asking(peer: Peer, environment: Path, trials_file: Path, scratch: Path) -> Callable[..., Asked]:
    """Asks the peer, changed as given."""

    def asked(question: Question, limit_s: float = ENOUGH_S, **changes: Any) -> Asked:
        changed = peer._replace(**changes)
        setting = Setting(changed, Environment.of(changed, environment), JOURNAL, limit_s)
        return ask(setting, question, 3, trials_file, scratch)

    return asked


def test_a_peer_is_filled_served_and_asked(asking: Callable[..., Asked], scratch: Path) -> None:
    asked = asking(question("/size=20000"))
    assert (asked.peer, asked.version, asked.store, asked.trials, asked.missing) == (
        "fake-peer",
        "1.2",
        "journal file",
        3,
        "",
    )
    assert (scratch / "journal.log").read_text() == "xxx"
    assert asked.size == 200003, "the id that the filler printed last is in the path"
    assert asked.filled_s
    assert asked.started_s
    assert asked.first_s
    assert len(asked.again_s) == AGAIN
    assert (scratch / "child.pid").exists()


def test_a_question_may_have_a_body(asking: Callable[..., Asked]) -> None:
    asked = asking(question("/", body={"max_results": 50}))
    assert asked.size == len('{"max_results": 50}')


def test_an_answer_that_is_too_late_has_no_figure(asking: Callable[..., Asked]) -> None:
    asked = asking(question("/slow"), limit_s=6.0)
    assert asked.missing == "more than 6 s"
    assert asked.first_s is None
    assert asked.memory, "the memory that it took until then is shown"


@pytest.mark.parametrize(
    ("asked_for", "limit_s", "said"),
    [
        (question("/wrong"), ENOUGH_S, "answered 500"),
        (question("/", way="endless"), 1.0, "filling it took more than 1 s"),
        (question("/", way="broken"), ENOUGH_S, "filling it failed: no space left"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_it_says_what_went_wrong(asking: Callable[..., Asked], asked_for: Question, limit_s: float, said: str) -> None:
    asked = asking(asked_for, limit_s)
    assert asked.missing.startswith(said)
    assert asked.first_s is None


def test_the_output_of_a_server_that_does_not_start_is_shown(asking: Callable[..., Asked], scratch: Path) -> None:
    filler = scratch.parent / "refused.py"
    filler.write_text(FILLER.replace('"x"', '"refuses"'))
    asked = asking(question("/"), filler=filler)
    assert asked.missing.startswith("its server didn't start")
    assert "the store is too old" in asked.missing


@pytest.mark.parametrize("folder", ["nowhere", None])
def test_a_peer_without_an_environment_is_not_installed(
    peer: Peer, tmp_path: Path, trials_file: Path, folder: str | None
) -> None:
    found = Environment.of(peer, folder and tmp_path / folder)  # type: ignore[arg-type]
    asked = ask(Setting(peer, found, SQLITE, ENOUGH_S), question("/"), 3, trials_file, tmp_path)
    assert (asked.version, asked.missing) == (None, "not installed")


def test_a_peer_that_is_missing_in_its_environment_has_no_version(peer: Peer, environment: Path) -> None:
    assert Environment.of(peer._replace(package="another-peer"), environment).version is None


def test_every_question_is_asked_at_every_size_on_every_store(peer: Peer, environment: Path) -> None:
    quick = peer._replace(serve=lambda *_: ["false"])
    plan = benchmark.Plan({"fake-peer": environment}, None, ENOUGH_S, [quick, MLFLOW])
    told: list[str] = []
    asked = list(benchmark.ask_all(plan, [20, 10], 3, told.append))
    assert [(one.peer, one.store, one.trials) for one in asked] == [
        (name, store, size)
        for size in (10, 20)
        for name, store in (
            ("fake-peer", "journal file"),
            ("fake-peer", "sqlite"),
            ("mlflow", "sqlite"),
            ("mlflow", "sqlite"),
        )
    ]
    assert {one.missing for one in asked if one.peer == "mlflow"} == {"not installed"}
    assert told[0] == "fake-peer on journal file: what /size= gives, 10 trials"


def test_the_table_has_the_peers_below_ours() -> None:
    found = Findings("sqlite", web_bytes=125_000_000)
    found.curves = {10: [Answers("curves", [10.0], 5000), Answers("figures", [20.0], 29_000)]}
    found.peers = [
        Asked("optuna-dashboard", "0.21.0", "sqlite", "page", 10, first_s=1.5, again_s=[0.5, 0.7, 9.0], size=10**7),
        Asked("optuna-dashboard", "0.21.0", "sqlite", "page", 1000, memory=2 * 10**9, missing="more than 600 s"),
        Asked("mlflow", None, "sqlite", "curve", 10, missing="not installed"),
    ]
    told = {row[0]: row[1:] for row in table.rows([found])}
    assert told[""] == ["10 trials", "1,000 trials"]
    assert told["Tuneboard on sqlite: charts of a run"] == ["0.020 s; 0.03 MB; server 125 MB", UNKNOWN]
    assert told["optuna-dashboard 0.21.0 on sqlite: page"] == [
        "first 1.500 s, then 0.700 s; 10.00 MB",
        "more than 600 s (until then 2,000 MB of memory)",
    ]
    assert told["mlflow on sqlite: curve"] == ["not installed", UNKNOWN]
    assert "| mlflow on sqlite: curve |" in markdown([found])
    assert "mlflow" not in markdown([Findings("sqlite")])


@pytest.mark.parametrize("text", ["mlflow", "mlflow=", "grafana=/tmp"])
def test_it_refuses_peers_that_it_does_not_know(text: str) -> None:
    with pytest.raises(CommandError, match="write it like optuna-dashboard=FOLDER"):
        call_command("bench_web", "--peers", text)


def test_the_part_peers_needs_peers() -> None:
    with pytest.raises(CommandError, match="needs --peers"):
        call_command("bench_web", "--parts", "peers")


def test_a_real_peer_answers() -> None:
    """optuna-dashboard is one of the tests' requirements, so that a change in its API is noticed."""
    plan = benchmark.Plan({"optuna-dashboard": Path(sys.prefix)}, None, ENOUGH_S, [OPTUNA])
    small = [benchmark.ask_all(plan, [size], 3, lambda _: None) for size in (20, 200)]
    few_and_many = list(zip(*small, strict=True))
    assert [(few.store, many.store) for few, many in few_and_many] == [(store.name,) * 2 for store in (JOURNAL, SQLITE)]
    for few, many in few_and_many:
        assert (few.missing, many.missing) == ("", "")
        assert few.size
        assert many.size
        assert few.size > 20 * 50, "it sends every trial"
        assert many.size > 5 * few.size


def test_every_peer_has_a_filler() -> None:
    assert all(peer.filler.exists() for peer in PEERS)

"""`manage.py up` in separate processes: what it starts and prints, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import psutil
import pytest
from django.core.management.base import CommandError

from dashboard.hosting import Address
from dashboard.management.commands.up import Command
from dashboard.management.working import apart
from tests.live import ROOT, STOP_S, LiveSite, environment, free_port
from tests.signing_in import signed_in
from tests.sites import SiteMaker
from tuning.host import valkey
from tuning.host.processes import Child
from tuning.queue.celery import COMPILE_QUEUE, EXTRACT_QUEUE

QUEUES = ("device.cpu", EXTRACT_QUEUE, COMPILE_QUEUE)


def up(var: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs an `up` that is expected to exit with an error."""
    command = [sys.executable, str(ROOT / "manage.py"), "up", *args]
    return subprocess.run(command, env=environment(var) | env, capture_output=True, text=True, timeout=60, check=False)


def status_of(url: str, cookies: CookieJar | None = None) -> tuple[int, str]:
    """The status and the final URL after redirects."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    try:
        with opener.open(url, timeout=20) as answer:
            return answer.status, answer.url
    except urllib.error.HTTPError as error:
        return error.code, error.url or url


def whole_family(site: LiveSite) -> list[psutil.Process]:
    assert site.process
    head = psutil.Process(site.process.pid)
    return [head, *head.children(recursive=True)]


def has_mapped(process: psutil.Process, library: str) -> bool:
    return any(library in area.path for area in process.memory_maps())


def left_in(site: LiveSite) -> set[str]:
    """Files in its folder that only a running site has."""
    return {path.name for path in site.var.iterdir()} & {"up.lock", "valkey.sock"}


@pytest.fixture(scope="module")
def restarted(site_maker: SiteMaker) -> LiveSite:
    site = site_maker.prepared()
    site.env["TUNEBOARD_TIME_ZONE"] = "Europe/Berlin"
    return site


@pytest.fixture
def site(restarted: LiveSite) -> LiveSite:
    """A running site that may be stopped or killed: the next test starts it again, which is quicker than a new one."""
    if not restarted.running:
        restarted.start()
    return restarted


@pytest.fixture
def hangs_up() -> Iterator[None]:
    """What the test starts ends on SIGHUP, even if the tests themselves were started by nohup, which would be inherited."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def odd_site(tmp_path: Path) -> Iterator[LiveSite]:
    """A site in a folder with spaces, a colon and more characters than the path of a socket can have."""
    site = LiveSite(tmp_path / ("a name of 100 characters: " + "x" * 74) / "var")
    site.var.parent.mkdir()
    yield site
    site.close()


def test_it_prints_a_url_that_signs_in_once(site: LiveSite) -> None:
    runs = f"{site.url}/runs/"
    site.wait_for(lambda: "sesame=" in site.said())
    found = re.search(rf"{site.url}/login/\?sesame=\S+", site.said())
    assert found, site.said()
    assert status_of(runs)[1].startswith(f"{site.url}/sign-in/")
    assert status_of(runs, signed_in(found[0])) == (200, runs)
    assert status_of(found[0])[0] == 403


def test_it_warns_of_running_as_root(site: LiveSite) -> None:
    site.wait_for(lambda: "sesame=" in site.said())
    site.wait_for(lambda: ("runs as root" in site.said()) == (os.geteuid() == 0))


def test_it_passes_settings_on_to_what_it_starts(site: LiveSite) -> None:
    cookies = urllib.request.HTTPCookieProcessor(signed_in(site.manage("login_url").strip()))
    with urllib.request.build_opener(cookies).open(f"{site.url}/regressions/new/", timeout=20) as page:
        assert "In the site’s time zone, Europe/Berlin." in page.read().decode()


def test_login_url_prints_a_url_for_a_later_sign_in(live_site: LiveSite) -> None:
    said = live_site.manage("login_url")
    assert re.fullmatch(rf"{live_site.url}/login/\?sesame=\S+\n", said)
    runs = f"{live_site.url}/runs/"
    assert status_of(runs, signed_in(said.strip())) == (200, runs)


def test_a_second_up_says_where_the_first_one_is(live_site: LiveSite) -> None:
    assert live_site.process
    ended = up(live_site.var, "--port", str(free_port()))
    assert ended.returncode == 1
    assert f"at {live_site.url}, process {live_site.process.pid}" in ended.stderr
    assert live_site.running
    assert live_site.answers()


def test_a_port_in_use_is_reported_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = up(tmp_path / "var", "--port", str(port))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"CommandError: Port {port} of 127.0.0.1 is in use.")
    assert {path.name for path in (tmp_path / "var").iterdir()} == {"secret_key", "valkey_password"}


def test_static_files_have_hashed_names_and_are_cached_forever(live_site: LiveSite) -> None:
    with urllib.request.urlopen(f"{live_site.url}/sign-in/") as answer:
        found = re.search(r'href="(/static/\S+?\.[0-9a-f]{12}\.css)"', answer.read().decode())
    assert found
    with urllib.request.urlopen(live_site.url + found[1]) as answer:
        assert "immutable" in answer.headers["Cache-Control"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists a process's mapped files")
def test_only_the_web_process_loads_the_libraries_of_pages(live_site: LiveSite) -> None:
    family = whole_family(live_site)
    greeting = [process for process in family[1:] if process.cmdline() == family[0].cmdline()]
    psutil.wait_procs(greeting, timeout=60)
    loaded = {process.pid for process in family if process.is_running() and has_mapped(process, "pydantic_core")}
    assert loaded == {process.pid for process in live_site.processes("dashboard.serve")}


def test_crashed_processes_are_restarted(site: LiveSite) -> None:
    for words, name in (
        (("dashboard.serve",), "web"),
        (("tuning.queue.worker", "device.cpu"), "worker-cpu"),
        (("valkey-server",), "valkey"),
    ):
        site.kill(*words)
        said = f"{name} was killed by SIGKILL; restarting it in 1 s"
        site.wait_for(lambda said=said: said in site.said())
        site.wait_for(lambda words=words: site.processes(*words))
    site.wait_for(site.answers)


def test_it_ends_on_sigterm(site: LiveSite) -> None:
    assert_ends_on(signal.SIGTERM, site)


@pytest.mark.usefixtures("hangs_up")
def test_a_killed_up_ends_all_its_processes_and_the_next_one_starts_and_ends_on_sighup(site: LiveSite) -> None:
    family = whole_family(site)
    assert site.process
    site.process.kill()
    site.process.wait()
    site.wait_for(lambda: not any(process.is_running() for process in family))
    assert left_in(site) == {"up.lock", "valkey.sock"}, "a crash leaves these, which must not prevent the next start"
    site.start()
    assert site.answers()
    assert_ends_on(signal.SIGHUP, site)


def assert_ends_on(number: signal.Signals, site: LiveSite) -> None:
    """It leaves no process, lock or socket."""
    family = whole_family(site)
    parts = [("valkey-server",), ("dashboard.serve",), *(("tuning.queue.worker", queue) for queue in QUEUES)]
    assert [words for words in parts if not site.processes(*words)] == []
    assert left_in(site) == {"up.lock", "valkey.sock"}
    assert site.process
    site.process.send_signal(number)
    assert site.process.wait(STOP_S) == 0
    assert [process for process in family if process.is_running()] == []
    assert left_in(site) == set()
    assert "Traceback" not in site.said()


@pytest.mark.tvm
def test_the_first_start_tunes_a_small_demo_even_in_a_folder_with_an_odd_name(odd_site: LiveSite) -> None:
    site = odd_site
    site.start("--port", str(site.port))
    assert valkey.answers(site.var)
    socket_path = valkey.socket_path(site.var)
    assert len(str(socket_path)) < 108
    site.wait_for(lambda: "Queued a small demo run" in site.said(), 60)
    token = site.token("viewer")
    site.wait_for(lambda: site.api("GET", "/runs/1", token=token)[1]["trials_done"] > 0, 300)
    run = site.api("GET", "/runs/1", token=token)[1]
    assert (run["name"], run["status"]) == ("Demo: a small MLP", "running")
    family = whole_family(site)  # Ctrl-C ends them all.
    assert any("tuning.engines" in " ".join(process.cmdline()) for process in family)
    assert site.stop() == 0
    assert [process for process in family if process.is_running()] == []
    assert not socket_path.parent.exists()
    site.start("--port", str(site.port))
    status, run = site.api("GET", "/runs/1", token=token)
    assert (status, run["status"]) == (200, "interrupted")
    assert "Queued" not in site.said(), "a second demo run was queued"


@pytest.fixture
def unready(tmp_path: Path) -> Iterator[LiveSite]:
    """A site that isn't expected to become ready."""
    site = LiveSite(tmp_path / "var")
    yield site
    site.close()


@pytest.mark.parametrize(
    ("variable", "url", "line"),
    [
        ("DATABASE_URL", "postgres://me:secret@127.0.0.1:9/tuneboard", "The database tuneboard at 127.0.0.1:9 can't"),
        pytest.param(
            "REDIS_URL",
            "redis://:secret@127.0.0.1:9/0",
            "The broker redis://127.0.0.1:9/0 can't",
            marks=pytest.mark.rare,
        ),
    ],
)
def test_it_says_in_one_line_what_it_waits_for(unready: LiveSite, variable: str, url: str, line: str) -> None:
    unready.env[variable] = url
    unready.launch()
    unready.wait_for(lambda: "Trying again" in unready.said(), 60)
    assert unready.said().startswith(line)
    assert unready.stop() == 0
    assert unready.said().splitlines()[1:] == ["Stopping.", "Stopped."]
    assert "secret" not in unready.said()


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"TUNEBOARD_LOGIN_URL_AGE": "an hour"}, 'Environment variable "TUNEBOARD_LOGIN_URL_AGE" invalid'),
        ({"TUNEBOARD_HTTPS": "maybe"}, 'Environment variable "TUNEBOARD_HTTPS" invalid'),
        ({"LOG_LEVEL": "LOUD"}, 'Environment variable "LOG_LEVEL" invalid'),
        ({"DATABASE_URL": "oracel://x"}, "DATABASE_URL"),
        (
            {"DATABASE_URL_FILE": "/dev/null/url"},
            'Environment variable "DATABASE_URL_FILE": /dev/null/url can\'t be read',
        ),
        ({"SECRET_KEY_FILE": "/"}, 'Environment variable "SECRET_KEY_FILE": / can\'t be read'),
        ({"TUNEBOARD_CONNECTIONS": "-1"}, 'Environment variable "TUNEBOARD_CONNECTIONS" invalid'),
        ({"REDIS_URL": "redsi://localhost"}, 'Environment variable "REDIS_URL" invalid'),
        ({"REDIS_URL": "redis://localhost:port"}, 'Environment variable "REDIS_URL" invalid'),
        ({"TUNEBOARD_DEVICES": "cpuu"}, "'cpuu': write it like cpu or cuda:0"),
        ({"TUNEBOARD_DEVICES": ""}, 'Environment variable "TUNEBOARD_DEVICES" invalid'),
        ({"TUNEBOARD_TRACKERS": "10.0.0.5:9190"}, "'10.0.0.5:9190': write it like lab=10.0.0.5:9190"),
        ({"TUNEBOARD_TRACKERS": "lab=10.0.0.5:91900"}, "write it like lab=10.0.0.5:9190"),
        ({"TUNEBOARD_TRACKERS": "a=x:1,a=y:1"}, "there are two trackers 'a'"),
        ({"TUNEBOARD_LEGACY_PYTHON": "bin/python"}, "'bin/python': write it like tvm0.9=/opt/tvm0.9/bin/python"),
        ({"TUNEBOARD_LEGACY_PYTHON": "old=/no/python"}, "/no/python isn't a program that can be started"),
        ({"TUNEBOARD_LEGACY_PYTHON": "a=/bin/sh,a=/bin/sh"}, "there are two interpreters 'a'"),
        ({"TUNEBOARD_TORCH_PYTHON": "bin/python"}, "'bin/python': write it like /opt/torch/bin/python"),
        ({"TUNEBOARD_TORCH_PYTHON": "/no/python"}, "/no/python isn't a program that can be started"),
        ({"TUNEBOARD_WEBHOOKS": "chat.example/hooks"}, "write it like https://chat.example/hooks/tune"),
        ({"TUNEBOARD_WEBHOOK_SECRET": "c2hvcnQ="}, "must be 24 to 64 random bytes in base64"),
        ({"TUNEBOARD_URL": "tune.example"}, "write it like https://tune.example"),
        ({"TUNEBOARD_TIME_ZONE": "Mars/Phobos"}, "there is no time zone 'Mars/Phobos'; write it like Europe/Berlin"),
        (
            {"TUNEBOARD_PROXIES": "proxy.example"},
            "'proxy.example' does not appear to be an IPv4 or IPv6 network: write it like 10.0.0.5",
        ),
        (
            {"TUNEBOARD_PROXIES": "10.0.0.1/24"},
            'Environment variable "TUNEBOARD_PROXIES" invalid: 10.0.0.1/24 has host bits set',
        ),
        ({"TUNEBOARD_PROXIES": "0.0.0.0/0"}, "0.0.0.0/0 is everybody: name your own networks"),
        ({"ALLOWED_HOSTS": "https://tune.example"}, "'https://tune.example': write it like tune.example"),
        (
            {"TUNEBOARD_PASSWORD_SIGN_IN": "0"},
            'Environment variable "TUNEBOARD_PASSWORD_SIGN_IN" invalid: nobody could sign in: set TUNEBOARD_OIDC_ISSUER',
        ),
        ({"TUNEBOARD_OIDC_ISSUER": "http://id.tune.example"}, 'Environment variable "TUNEBOARD_OIDC_ISSUER" invalid'),
        ({"ALLOWED_HOSTS": ""}, 'Environment variable "ALLOWED_HOSTS" invalid'),
        ({"TUNEBOARD_VAR": ""}, 'Environment variable "TUNEBOARD_VAR" invalid'),
        ({"TUNEBOARD_VAR": "/dev/null/var"}, 'Environment variable "TUNEBOARD_VAR": /dev/null/var can\'t be written'),
    ],
)
def test_an_invalid_setting_is_named_in_one_line(tmp_path: Path, env: dict[str, str], said: str) -> None:
    ended = up(tmp_path / "var", **env)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_mismatched_tvm_packages_are_named_with_the_remedy(tmp_path: Path) -> None:
    other = tmp_path / "packages" / "apache_tvm_ffi-9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: apache-tvm-ffi\nVersion: 9.9\n")
    ended = up(tmp_path / "var", "--port", str(free_port()), PYTHONPATH=str(other.parent))
    assert ended.returncode == 1
    assert "apache-tvm-ffi 9.9 is installed" in ended.stderr
    assert "pip install" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_it_exits_with_the_reason_if_a_startup_step_fails(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise CommandError("The disk is full.")

    with pytest.raises(CommandError, match="see the reason above"):
        apart(fail)
    assert capfd.readouterr().err == "The disk is full.\n"


def test_it_exits_with_the_reason_if_the_web_process_cannot_start(tmp_path: Path) -> None:
    broken = [sys.executable, "-c", "print('no such module'); raise SystemExit(3)"]
    web = Child("web", broken, os.environ, tmp_path / "web.log")
    address = Address.bind("127.0.0.1", 0)
    with address.socket, pytest.raises(CommandError, match=r"ended with status 3(.|\n)*no such module"):
        Command()._start(web, address)

"""What docs/docker.md says of the containers is what the compose file and the Dockerfile do. No container is started here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.connection import parse_url

from tests.live import ROOT, environment
from tuning.queue import celery

FOLDER = ROOT / "docker"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
OURS = sorted(SERVICES.keys() - {"postgres", "valkey"})
PULSING = sorted(name for name in OURS if "alive" in SERVICES[name].get("command", ""))
DIGEST = re.compile(r"\S+:\S+@sha256:[0-9a-f]{64}")
PROMISE = "no-new-privileges:true"

every_service = pytest.mark.parametrize("name", sorted(SERVICES))


@every_service
def test_it_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == [PROMISE]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
    assert service.keys().isdisjoint({"privileged", "devices", "pid", "ipc", "network_mode", "userns_mode"})


@every_service
def test_its_memory_and_processes_are_limited(name: str) -> None:
    assert re.search(r"\d+[mg]\}?$", SERVICES[name]["mem_limit"])
    assert SERVICES[name]["pids_limit"] > 0
    assert all("size=" in folder and "nosuid,nodev" in folder for folder in SERVICES[name]["tmpfs"])


@every_service
def test_its_health_is_checked_unless_it_ends_by_itself(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    if name == "migrate":
        assert check == {"disable": True}
        assert SERVICES[name]["restart"] == "no"
    else:
        assert check["test"][0] in ("CMD", "CMD-SHELL")


@pytest.mark.parametrize("name", PULSING)
def test_the_check_looks_at_the_file_that_the_process_touches(name: str) -> None:
    file = SERVICES[name]["command"].partition("--alive ")[2]
    assert file in SERVICES[name]["healthcheck"]["test"][1]
    assert any(folder.startswith(f"{Path(file).parent}:") for folder in SERVICES[name]["tmpfs"])


def test_every_worker_and_the_sweep_has_such_a_file() -> None:
    running = [
        name for name in OURS if re.search(r"tuning\.queue\.worker|sweep|join", SERVICES[name].get("command", ""))
    ]
    assert sorted(running) == PULSING == ["compile", "extract", "remote", "sweep", "watch", "worker"]


@pytest.mark.parametrize(("touched", "healthy"), [("now", True), ("10 minutes ago", False), (None, False)])
def test_the_check_fails_once_the_file_is_old(tmp_path: Path, touched: str | None, healthy: bool) -> None:
    if touched:
        subprocess.run(["touch", "--date", touched, tmp_path / "alive"], check=True)
    check = SERVICES["worker"]["healthcheck"]["test"][1].replace("/run/tuneboard", str(tmp_path))
    assert (subprocess.run(["sh", "-c", check], capture_output=True, check=False).returncode == 0) is healthy


def test_images_are_pinned_by_digest() -> None:
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    images += re.findall(r"^FROM (\S+)", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) == 3
    assert [image for image in images if not DIGEST.fullmatch(image)] == []
    assert all("image" in service or "build" in service for service in SERVICES.values())


def test_packages_are_installed_by_hash() -> None:
    installs = re.findall(r"pip install .*", (FOLDER / "Dockerfile").read_text())
    assert installs
    assert all("--require-hashes --only-binary :all: -r requirements.lock" in command for command in installs)


def test_only_ours_reach_database_and_broker_and_these_reach_nothing_else() -> None:
    networks = yaml.safe_load((FOLDER / "compose.yaml").read_text())["networks"]
    assert networks["data"] == {"internal": True}
    assert SERVICES["postgres"]["networks"] == SERVICES["valkey"]["networks"] == ["data"]
    assert "outside" not in SERVICES["worker"]["networks"], "the devices' worker needs no other network"
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["web"]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["web"]["ports"])


def test_every_queue_has_a_worker() -> None:
    commands = [SERVICES[name].get("command", "") for name in OURS]
    served = {
        queue
        for text in commands
        if (found := re.search(r"queue\.worker \w+ (\S+)", text))
        for queue in found[1].split(",")
    }
    queues = {value for name, value in vars(celery).items() if name.endswith("_QUEUE")}
    assert served == queues | {celery.REMOTE_QUEUES}
    assert "join --only-devices" in SERVICES["worker"]["command"], "it serves the queues of the devices"


def test_only_those_who_watch_logs_see_them_and_nobody_writes_there() -> None:
    mounts = {name: SERVICES[name].get("volumes", []) for name in SERVICES}
    logs = {name: [each for each in found if "/logs" in each] for name, found in mounts.items()}
    assert {name for name, found in logs.items() if found} == {"web", "watch"}
    assert logs["web"] == logs["watch"] == ["${TUNEBOARD_LOGS:-logs}:/logs:ro"]
    assert all("var:/var/lib/tuneboard" in mounts[name] for name in OURS)
    example = (FOLDER / ".env.example").read_text()
    assert "# TUNEBOARD_WATCH_FOLDERS=/logs\n" in example
    assert f"# COMPOSE_PROFILES={SERVICES['watch']['profiles'][0]}\n" in example


@every_service
def test_it_gets_passwords_as_files_only(name: str) -> None:
    shown = json.dumps([SERVICES[name].get(key) for key in ("environment", "command", "healthcheck", "env_file")])
    assert re.findall(r"PASSWORD(?!_FILE)|postgres://|redis://|\$\{", shown) == []


def test_all_of_ours_have_the_same_settings() -> None:
    """Web and sweep, for one, must agree on the time zone of schedules."""
    assert all(SERVICES[name]["env_file"] == [{"path": ".env", "required": False}] for name in OURS)
    assert {tuple(SERVICES[name]["environment"]) for name in OURS} == {
        ("DATABASE_URL_FILE", "REDIS_URL_FILE", "TUNEBOARD_MACHINE")
    }


def test_what_is_documented_of_each_service_is_so() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| `(\w+)`, (\w+) \|", (ROOT / "docs/docker.md").read_text(), re.MULTILINE)
    limits = {name: re.findall(r"\$\{(\w+):-(\w+)\}", service["mem_limit"])[0] for name, service in SERVICES.items()}
    assert {name: (networks.split(", "), (variable, limit)) for name, networks, variable, limit in rows} == {
        name: (service["networks"], limits[name]) for name, service in SERVICES.items()
    }


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The folder of secrets that the script makes."""
    script = tmp_path / "make_secrets.sh"
    script.write_text((FOLDER / script.name).read_text())
    subprocess.run(["sh", script], check=True, capture_output=True)
    return tmp_path / "secrets"


def test_the_secrets_fit_each_other(made: Path) -> None:
    declared = yaml.safe_load((FOLDER / "compose.yaml").read_text())["secrets"]
    assert {Path(one["file"]).name for one in declared.values()} == {path.name for path in made.iterdir()}
    password = (made / "postgres_password").read_text()
    assert re.fullmatch(r"[0-9a-f]{64}", password)
    assert (made / "database_url").read_text() == f"postgres://tuneboard:{password}@postgres:5432/tuneboard"
    key, broker = (made / "valkey.conf").read_text().split()
    assert key == "requirepass"
    assert broker != password
    url = parse_url((made / "redis_url").read_text())  # type: ignore[no-untyped-call]
    assert (url["host"], url["password"], url["db"]) == ("valkey", broker, 0)


def test_the_secrets_are_closed_to_the_machines_other_users(made: Path) -> None:
    assert made.stat().st_mode & 0o777 == 0o700
    # Docker mounts each file as it is, and the containers' users have other numbers.
    assert {path.stat().st_mode & 0o777 for path in made.iterdir()} == {0o644}


def test_secrets_that_exist_are_kept(made: Path) -> None:
    before = {path.name: path.read_text() for path in made.iterdir()}
    again = subprocess.run(["sh", made.parent / "make_secrets.sh"], capture_output=True, check=False)
    assert again.returncode == 1
    assert {path.name: path.read_text() for path in made.iterdir()} == before


@pytest.mark.parametrize(("password", "accepted"), [("Abc123", True), ("a@b", False), ("a b", False), ("a\nb", False)])
def test_a_password_of_ones_own_must_fit_into_a_url(tmp_path: Path, password: str, accepted: bool) -> None:
    script = tmp_path / "make_secrets.sh"
    script.write_text((FOLDER / script.name).read_text())
    env = {"PATH": "/usr/bin:/bin", "POSTGRES_PASSWORD": password}
    done = subprocess.run(["sh", script], env=env, capture_output=True, check=False)
    assert (done.returncode == 0) is accepted
    assert (tmp_path / "secrets").exists() is accepted


def test_secrets_never_become_part_of_the_image_or_the_repository() -> None:
    assert "docker/secrets*" in (ROOT / ".dockerignore").read_text().splitlines()
    assert "docker/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_a_setting_can_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("redis://:password@valkey:6379/0\n")
    env = environment(tmp_path / "var") | {"REDIS_URL_FILE": str(file)}
    command = [sys.executable, "-c", "from dashboard import settings; print(settings.REDIS_URL)"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "redis://:password@valkey:6379/0\n"

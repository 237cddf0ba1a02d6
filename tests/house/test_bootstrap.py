"""manage.py on a machine that has only Python, with tiny packages instead of the real ones."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from dashboard import bootstrap

PRINTS_ITS_ARGUMENTS = "def execute_from_command_line(argv): print('runs', *argv[1:])"
PACKAGES = {
    "django": {"django/__init__.py": "", "django/core/management/__init__.py": PRINTS_ITS_ARGUMENTS},
    "environs": {"environs/__init__.py": "class EnvError(Exception): pass"},
    "for_tests": {"for_tests.py": ""},
}


class Project:
    """A folder with manage.py and its bootstrap, and an index of tiny packages."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.root = folder / "project"
        self.index = folder / "index"
        for name in ("manage.py", "dashboard/__init__.py", "dashboard/bootstrap.py"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, self.root / name)
        self.index.mkdir()
        self.pin({"django": "1.0", "environs": "1.0"}, {"for_tests": "1.0"})

    def pin(self, run: dict[str, str], test: dict[str, str]) -> None:
        (self.root / "tests").mkdir(exist_ok=True)
        (self.root / "requirements.txt").write_text("".join(f"{name}=={v}\n" for name, v in run.items()))
        (self.root / "tests/requirements.txt").write_text("".join(f"{name}=={v}\n" for name, v in test.items()))
        (self.root / "requirements.lock").write_text(_lock(run))
        (self.root / "tests/requirements.lock").write_text(_lock(run | test))

    def publish(self, *names: str, version: str = "1.0") -> None:
        for name in names or PACKAGES:
            (self.index / f"{name}-{version}-py3-none-any.whl").write_bytes(_wheel(name, version))

    def publish_source(self, name: str, setup: str) -> str:
        """Publish a package that would have to be built. Return the archive's SHA-256."""
        path = self.index / f"{name}-1.0.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            member = tarfile.TarInfo(f"{name}-1.0/setup.py")
            member.size = len(setup)
            archive.addfile(member, io.BytesIO(setup.encode()))
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "VIRTUAL"))}
        offline = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index)}
        return {**kept, **offline, **more}

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        # This environment's base interpreter, which lacks our packages.
        python = Path(sys.executable).resolve()
        command: Sequence[str | Path] = [python, self.root / "manage.py", *args]
        return subprocess.Popen(
            command, env=self.environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def call(self, *args: str, **env: str) -> tuple[int, str, str]:
        with self.start(*args, **env) as process:
            out, err = process.communicate()
            return process.returncode, out, err


def _wheel(name: str, version: str) -> bytes:
    """Bytes of a tiny package. They depend on its name and version only, so a lock can have their hash before it is published."""
    info = f"{name}-{version}.dist-info"
    texts = {
        **PACKAGES[name],
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as wheel:
        for path, text in texts.items():
            wheel.writestr(zipfile.ZipInfo(path), text)
    return written.getvalue()


def _lock(pins: dict[str, str]) -> str:
    hashes = {name: hashlib.sha256(_wheel(name, version)).hexdigest() for name, version in pins.items()}
    return "".join(f"{name}=={version} \\\n    --hash=sha256:{hashes[name]}\n" for name, version in pins.items())


@pytest.fixture
def project(tmp_path: Path, project_root: Path) -> Project:
    return Project(tmp_path, project_root)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Project:
    """A project with a virtual environment, made only once since that takes seconds."""
    project = Project(tmp_path_factory.mktemp("template"), project_root)
    project.publish("django", "environs")
    status, _, err = project.call("up")
    assert status == 0, err
    return project


@pytest.fixture
def installed(template: Project, tmp_path: Path, project_root: Path) -> Project:
    """A copy of the template: a virtual environment finds its packages wherever it is."""
    project = Project(tmp_path, project_root)
    shutil.copytree(template.root, project.root, symlinks=True, dirs_exist_ok=True)
    shutil.copytree(template.index, project.index, dirs_exist_ok=True)
    return project


def test_it_creates_an_environment_once_and_continues_in_it(project: Project) -> None:
    project.publish()
    status, out, err = project.call("create_token", "ada")
    assert (status, out) == (0, "runs create_token ada\n"), err
    assert "Installing" in err
    assert project.call("up") == (0, "runs up\n", "")


@pytest.mark.rare
def test_it_adds_the_test_requirements_for_the_test_command(installed: Project) -> None:
    project = installed
    assert project.call("up") == (0, "runs up\n", "")
    project.publish("for_tests")
    status, out, err = project.call("test", "-k", "name")
    assert (status, out) == (0, "runs test -k name\n"), err
    assert list(project.root.glob(".venv/lib/*/site-packages/for_tests.py"))
    assert project.call("up") == (0, "runs up\n", "")


def test_it_follows_a_changed_pin(installed: Project) -> None:
    project = installed
    project.pin({"django": "2.0", "environs": "1.0"}, {"for_tests": "1.0"})
    project.publish("django", version="2.0")
    status, _, err = project.call("up")
    assert status == 0, err
    assert [path.name for path in project.root.glob(".venv/lib/*/site-packages/django-*")] == ["django-2.0.dist-info"]


def test_it_completes_an_install_that_failed(project: Project) -> None:
    project.publish("django")
    status, out, err = project.call("up")
    assert (status, out) == (1, "")
    assert "There is no package environs==1.0" in err
    project.publish("environs")
    assert project.call("up")[:2] == (0, "runs up\n")


@pytest.mark.parametrize("change", ["wheel", "lock", "dependency", "test"])
def test_it_refuses_a_package_whose_hash_differs(project: Project, change: str) -> None:
    project.publish()
    if change in ("wheel", "test"):
        name = "environs" if change == "wheel" else "for_tests"
        with zipfile.ZipFile(project.index / f"{name}-1.0-py3-none-any.whl", "a") as wheel:
            wheel.writestr(f"{name}_canary.py", "")
    else:
        lock = project.root / "requirements.lock"
        digest = hashlib.sha256(_wheel("environs", "1.0")).hexdigest()
        lock.write_text(lock.read_text().replace(digest, "0" * 64 if change == "lock" else digest[::-1]))
    status, out, err = project.call("test" if change == "test" else "up")
    assert (status, out) == (1, "")
    assert f"the index's {'for_tests' if change == 'test' else 'environs'} 1.0 isn't the file that was pinned" in err
    assert not list(project.root.glob(".venv/lib/*/site-packages/*canary*"))
    assert not list(project.root.glob(".venv/lib/*/site-packages/django"))


def test_it_installs_nothing_that_has_no_hash(project: Project) -> None:
    project.publish()
    lock = project.root / "requirements.lock"
    lock.write_text(f"{lock.read_text()}for_tests==1.0\n")
    status, out, err = project.call("up")
    assert (status, out) == (1, "")
    assert "install.log says why" in err
    assert not list(project.root.glob(".venv/lib/*/site-packages/for_tests.py"))


@pytest.mark.parametrize("beside_wheel", [True, False])
def test_it_never_builds_a_package(project: Project, tmp_path: Path, *, beside_wheel: bool) -> None:
    project.publish()
    canary = tmp_path / "canary"
    digest = project.publish_source("environs", f"open({str(canary)!r}, 'w')")
    lock = project.root / "requirements.lock"
    lock.write_text(f"{lock.read_text().rstrip()} \\\n    --hash=sha256:{digest}\n")
    if not beside_wheel:
        (project.index / "environs-1.0-py3-none-any.whl").unlink()
    status, _, err = project.call("up")
    assert not canary.exists()
    assert (status == 0) is beside_wheel, err
    assert ("There is no package environs==1.0" in err) is not beside_wheel


@pytest.mark.rare
def test_it_recreates_a_broken_environment(installed: Project) -> None:
    project = installed
    (project.root / ".venv/bin/python").unlink()
    (project.root / ".venv/bin/python").symlink_to("/nowhere/python3")
    assert project.call("up")[:2] == (0, "runs up\n")


def test_two_calls_at_once_install_once(project: Project) -> None:
    project.publish()
    calls = [project.start("up") for _ in range(2)]
    ended = [(call.communicate(), call.returncode) for call in calls]
    assert [status for _, status in ended] == [0, 0]
    assert [out for (out, _), _ in ended] == ["runs up\n"] * 2
    assert sorted("Installing the packages" in err for (_, err), _ in ended) == [False, True]


@pytest.mark.rare
def test_it_says_that_the_network_is_missing(project: Project) -> None:
    nobody = "http://127.0.0.1:9/simple"
    status, out, err = project.call("up", PIP_NO_INDEX="", PIP_INDEX_URL=nobody, PIP_RETRIES="0", PIP_FIND_LINKS="")
    assert (status, out) == (1, "")
    assert "The package index can't be reached" in err
    assert "Traceback" not in err


def test_it_says_that_venv_is_missing(project: Project, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['ensurepip'] = None")
    status, out, err = project.call("up", PYTHONPATH=str(tmp_path))
    assert (status, out) == (1, "")
    assert f"apt-get install python3.{sys.version_info[1]}-venv" in err
    assert len(err.splitlines()) == 1


def test_it_says_that_the_folder_cannot_be_written(project: Project) -> None:
    (project.root / ".venv").write_text("a file where the folder should be")
    status, _, err = project.call("up")
    assert status == 1
    assert ".venv can't be created" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("Permission denied: '/x'", "can't be written"),
        ("Max retries exceeded (Caused by SSLError(CERTIFICATE_VERIFY_FAILED))", "certificate"),
        ("ReadTimeoutError: Max retries exceeded", "can't be reached"),
        ("No matching distribution found for apache-tvm==9", "no package apache-tvm==9"),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM\n    a-b==1.2 from https://x (from",
            "index's a-b 1.2 isn't",
        ),
        ("something new", "install.log says why"),
    ],
)
def test_it_finds_the_advice_in_pips_log(tmp_path: Path, log: str, advice: str) -> None:
    (tmp_path / "install.log").write_text(log)
    assert advice in bootstrap._cause(tmp_path / "install.log")


def test_it_uses_an_environment_with_the_pinned_packages_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(sys, "prefix", "/opt/site")
    monkeypatch.setattr(bootstrap, "_run", ran.append)
    bootstrap.main(["manage.py", "test"])
    assert ran == [["manage.py", "test"]]


def test_an_older_python_is_refused_with_the_reason(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    with pytest.raises(SystemExit, match=r"needs Python 3\.10 or newer, and this is 3\.9"):
        runpy.run_path(str(project_root / "manage.py"), run_name="__main__")


def test_an_older_python_can_read_manage_py(project_root: Path) -> None:
    ast.parse((project_root / "manage.py").read_text(), feature_version=(3, 4))


def test_the_stamp_covers_every_file_of_pins(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "ROOT", project.root)
    seen = {bootstrap._digest(bootstrap.TEST)}
    for name in ("requirements.txt", "tests/requirements.txt", "tests/requirements.lock"):
        (project.root / name).write_text(f"# {name}\n")
        seen.add(bootstrap._digest(bootstrap.TEST))
    assert len(seen) == 4
    before = bootstrap._digest(bootstrap.RUN)
    (project.root / "requirements.lock").write_text("# changed\n")
    assert bootstrap._digest(bootstrap.RUN) != before

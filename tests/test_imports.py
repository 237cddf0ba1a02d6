"""Which room may import which. docs/design.md has the same table in words."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeVar

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("dashboard", "tuning")
Node = TypeVar("Node")
MOST_MODULES = 25
"""In one folder."""

BASE = {
    "tuning.beneath",
    "tuning.estimate",
    "tuning.forecast",
    "tuning.gain",
    "tuning.likeness",
    "tuning.lines",
    "tuning.noise",
    "tuning.roofline",
    "tuning.validation",
    "tuning.version",
    "tuning.wording",
}
"""Modules without imports of ours, which every room but the engines' may import."""
READ_SIDE = {
    "tuning.models",
    "tuning.reads",
    "tuning.reads.comparing",
    "tuning.reads.downloads",
    "tuning.reads.records",
    "tuning.storage",
}
PAGE_SIDE = {
    "dashboard.accounts",
    "dashboard.http",
    "dashboard.http.addresses",
    "dashboard.people",
    "dashboard.presentation",
    "tuning.actions",
    "tuning.audit",
    *READ_SIDE,
}
ALLOWED: dict[str, set[str]] = {
    **{module: set() for module in sorted(BASE)},
    # The domain, from what imports least to what imports most.
    "tuning.apps": {"tuning.models", "tuning.notify"},
    "tuning.records": set(),
    "tuning.logs": {"tuning.records"},
    "tuning.schedules": set(),
    "tuning.storage": set(),
    "tuning.pace": {"tuning.engines.wire"},
    "tuning.models": {"tuning.engines.wire", "tuning.logs", "tuning.pace", "tuning.records", "tuning.storage"},
    "tuning.audit": {"tuning.models"},
    "tuning.notify": {"tuning.models"},
    "tuning.notify.announce": {"tuning.models"},
    "tuning.host": {"tuning.engines.wire"},
    "tuning.reads": {"tuning.engines.wire", "tuning.host", "tuning.logs", "tuning.models", "tuning.storage"},
    "tuning.reads.comparing": {"tuning.models", "tuning.reads"},
    "tuning.reads.downloads": {
        "tuning.engines.wire",
        "tuning.logs",
        "tuning.models",
        "tuning.reads",
        "tuning.records",
        "tuning.storage",
    },
    "tuning.reads.records": {
        "tuning.logs",
        "tuning.models",
        "tuning.reads.downloads",
        "tuning.schedules",
        "tuning.storage",
    },
    "tuning.work": {"tuning.engines.wire", "tuning.host", "tuning.logs", "tuning.notify.announce", *READ_SIDE},
    "tuning.queue": {"tuning.host", "tuning.models", "tuning.notify", "tuning.notify.announce", "tuning.work"},
    "tuning.actions": {
        "tuning.audit",
        "tuning.engines.wire",
        "tuning.host",
        "tuning.notify",
        "tuning.notify.announce",
        "tuning.queue",
        "tuning.work",
        *READ_SIDE,
    },
    "tuning.streams": {
        "tuning.actions",
        "tuning.audit",
        "tuning.host",
        "tuning.logs",
        "tuning.notify.announce",
        "tuning.queue",
        "tuning.records",
        "tuning.work",
        *READ_SIDE,
    },
    "tuning.backup": {"tuning.host", "tuning.logs", "tuning.models", "tuning.storage"},
    "tuning.management": {"tuning.audit", "tuning.backup", "tuning.host"},
    "tuning.management.commands": {
        "tuning.actions",
        "tuning.audit",
        "tuning.host",
        "tuning.management",
        "tuning.models",
        "tuning.reads",
        "tuning.reads.comparing",
        "tuning.reads.downloads",
        "tuning.work",
    },
    # Processes of their own, with TVM and without Django.
    "tuning.engines.wire": set(),
    "tuning.engines.events": {"tuning.engines.wire"},
    "tuning.engines.records": {"tuning.engines.saved", "tuning.engines.wire", "tuning.logs", "tuning.records"},
    "tuning.engines.saved": {"tuning.engines.wire"},
    "tuning.engines.forking": {"tuning.engines.wire"},
    "tuning.engines.targets": {"tuning.engines.wire"},
    "tuning.engines.networks": {
        "tuning.engines.networks.quantized",
        "tuning.engines.networks.tensorir",
        "tuning.engines.networks.uploaded",
        "tuning.engines.targets",
        "tuning.engines.wire",
    },
    "tuning.engines.networks.bfloat16": {"tuning.engines.networks.tensorir", "tuning.engines.wire"},
    "tuning.engines.networks.quantized": {"tuning.engines.networks.tensorir", "tuning.engines.targets"},
    "tuning.engines.networks.tensorir": set(),
    "tuning.engines.networks.uploaded": {
        "tuning.engines.networks.quantized",
        "tuning.engines.networks.tensorir",
        "tuning.engines.saved",
        "tuning.engines.targets",
        "tuning.engines.wire",
    },
    "tuning.engines.measuring": {"tuning.engines.targets", "tuning.engines.wire"},
    "tuning.engines.confinement": {"tuning.engines.wire"},
    "tuning.engines.assembly": {"tuning.engines.wire"},
    "tuning.engines.oneshot": {
        "tuning.engines.assembly",
        "tuning.engines.confinement",
        "tuning.engines.forking",
        "tuning.engines.measuring",
        "tuning.engines.meta_schedule.trust",
        "tuning.engines.networks",
        "tuning.engines.networks.bfloat16",
        "tuning.engines.proof",
        "tuning.engines.records",
        "tuning.engines.targets",
        "tuning.engines.wire",
        "tuning.records",
    },
    "tuning.engines.pool": {
        "tuning.engines.confinement",
        "tuning.engines.events",
        "tuning.engines.forking",
        "tuning.engines.measuring",
        "tuning.engines.targets",
        "tuning.engines.wire",
    },
    "tuning.engines.proof": set(),
    "tuning.engines.old_tvm": set(),
    "tuning.engines.pytorch": set(),
    "tuning.engines.old_tvm.compiling": {"tuning.engines.old_tvm", "tuning.engines.proof"},
    "tuning.engines.meta_schedule": {
        "tuning.engines.confinement",
        "tuning.engines.events",
        "tuning.engines.forking",
        "tuning.engines.measuring",
        "tuning.engines.networks",
        "tuning.engines.networks.bfloat16",
        "tuning.engines.networks.tensorir",
        "tuning.engines.meta_schedule.trust",
        "tuning.engines.records",
        "tuning.engines.targets",
        "tuning.engines.wire",
        "tuning.likeness",
        "tuning.logs",
    },
    "tuning.engines.meta_schedule.trust": {
        "tuning.engines.measuring",
        "tuning.engines.records",
        "tuning.engines.wire",
        "tuning.logs",
    },
    # The web.
    "dashboard.bootstrap": set(),
    "dashboard.healthy": set(),
    "dashboard.database": set(),
    "dashboard.hosting": {"tuning.host"},
    "dashboard.assets": set(),
    "dashboard.models": set(),
    "dashboard.accounts": {"dashboard.models", "tuning.audit", "tuning.models"},
    "dashboard.people": {
        "dashboard.accounts",
        "dashboard.http.addresses",
        "dashboard.models",
        "tuning.audit",
        "tuning.models",
        "tuning.notify.announce",
    },
    "dashboard.http.addresses": set(),
    "dashboard.client": set(),
    "dashboard.checks": {"tuning.host", "tuning.storage"},
    "dashboard.apps": {"dashboard.accounts", "dashboard.checks", "dashboard.people", "tuning.actions"},
    "dashboard.settings": {"dashboard.assets", "tuning.engines.wire", "tuning.host"},
    "dashboard.presentation": {"tuning.schedules", *READ_SIDE},
    "dashboard.http": {
        "dashboard.accounts",
        "dashboard.models",
        "dashboard.presentation",
        "tuning.actions",
        "tuning.audit",
        "tuning.host",
        *READ_SIDE,
    },
    "dashboard.metrics": {
        "dashboard.accounts",
        "dashboard.http",
        "dashboard.http.addresses",
        "dashboard.models",
        "tuning.engines.wire",
        "tuning.host",
        "tuning.reads",
    },
    "dashboard.templatetags": {"dashboard.accounts", "dashboard.presentation", "tuning.models"},
    "dashboard.forms": {"tuning.actions", "tuning.engines.wire", "tuning.host", "tuning.models", "tuning.reads"},
    "dashboard.consumers": {
        "dashboard.accounts",
        "dashboard.http",
        "tuning.host",
        "tuning.models",
        "tuning.notify.announce",
    },
    "dashboard.api": {"tuning.engines.wire", "tuning.streams", *PAGE_SIDE},
    "dashboard.views": {"dashboard.forms", "dashboard.metrics", "tuning.host", *PAGE_SIDE},
    "dashboard.views.runs": {"dashboard.forms", "dashboard.views", "tuning.streams", *PAGE_SIDE},
    "dashboard.urls": {
        "dashboard.accounts",
        "dashboard.api",
        "dashboard.hosting",
        "dashboard.http",
        "dashboard.views",
        "dashboard.views.runs",
    },
    "dashboard.asgi": {"dashboard.consumers", "dashboard.http", "dashboard.metrics"},
    "dashboard.listening": set(),
    "dashboard.serve": {"dashboard.listening", "tuning.actions", "tuning.host"},
    "dashboard.management": {
        "dashboard.hosting",
        "tuning.audit",
        "tuning.backup",
        "tuning.engines.wire",
        "tuning.host",
        "tuning.models",
        "tuning.queue",
    },
    "dashboard.management.commands": {
        "dashboard.assets",
        "dashboard.hosting",
        "dashboard.management",
        "dashboard.models",
        "tuning.backup",
        "tuning.engines.wire",
        "tuning.host",
        "tuning.management",
        "tuning.streams",
        "tuning.notify",
        "tuning.notify.announce",
        "tuning.queue",
        "tuning.work",
        *PAGE_SIDE,
    },
}
"""Each room, and the other rooms that it may import. A room is a package, or a module or subpackage of one."""

DJANGO = {"asgiref", "axes", "celery", "channels", "django", "kombu", "mozilla_django_oidc", "ninja", "sesame"}
TVM = {"tvm", "tvm_ffi"}


def sources(*packages: str) -> list[Path]:
    """Every module of the packages, except migrations, which are Django's."""
    found = (path for package in packages for path in (ROOT / package).rglob("*.py"))
    return sorted(path for path in found if "migrations" not in path.parts)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def scripts() -> list[Path]:
    """The browser's modules."""
    return sorted((ROOT / "static").rglob("*.js"))


def imports_of_script(script: Path) -> set[Path]:
    found = re.findall(r'^import (?:[^"]* from )?"(\.[^"]+)";', script.read_text(), re.MULTILINE)
    return {(script.parent / path).resolve() for path in found}


@cache
def modules() -> frozenset[str]:
    return frozenset(map(module_of, sources(*PRODUCT)))


def imported(source: str, package: str) -> Iterator[str]:
    """Every module, and every name taken from one, that the source imports anywhere: in functions and for types, too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(part for part in (above, node.module) if part)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imports_of(path: Path) -> set[str]:
    module = module_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return set(imported(path.read_text(), package))


def ours(name: str) -> str | None:
    """Our module that an import names or takes a name from."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name or None


@cache
def graph() -> dict[str, set[str]]:
    """Each module of ours, with those of our modules that it imports."""
    named = {module_of(path): map(ours, imports_of(path)) for path in sources(*PRODUCT)}
    return {module: {name for name in names if name and name != module} for module, names in named.items()}


def room_of(module: str) -> str | None:
    """The innermost room that the module belongs to."""
    while module and module not in ALLOWED:
        module = module.rpartition(".")[0]
    return module or None


def may_import(room: str) -> set[str]:
    base = set() if room in BASE or room.startswith("tuning.engines.") else BASE
    return {room, *ALLOWED[room], *base}


def cycle(edges: Mapping[Node, AbstractSet[Node]]) -> list[Node] | None:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        found: list[Node] = error.args[1]
        return found
    return None


def test_every_module_belongs_to_a_room() -> None:
    bare = {"dashboard", "tuning", "tuning.engines"}  # They contain no code.
    assert [module for module in graph() if room_of(module) is None] == sorted(bare)


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    crossing = {
        f"{module} imports {name}"
        for module, names in graph().items()
        if room_of(module) == room
        for name in names
        if room_of(name) not in may_import(room)
    }
    assert crossing == set()


def test_no_import_is_circular() -> None:
    assert cycle(graph()) is None


def test_no_room_imports_one_that_imports_it() -> None:
    assert cycle({room: may_import(room) - {room} for room in ALLOWED}) is None


def test_no_folder_has_too_many_modules() -> None:
    modules_of = Counter(path.parent for path in (*sources(*PRODUCT), *scripts()) if path.name != "__init__.py")
    assert {str(folder): count for folder, count in modules_of.items() if count > MOST_MODULES} == {}


def test_no_import_of_scripts_is_circular() -> None:
    graph = {script: imports_of_script(script) for script in scripts()}
    assert cycle(graph) is None


@pytest.mark.parametrize("path", sources(*PRODUCT), ids=module_of)
def test_tvm_and_django_stay_apart(path: Path) -> None:
    """TVM loads only in processes of its own, which start without Django."""
    module, tops = module_of(path), {name.partition(".")[0] for name in imports_of(path)}
    if not module.startswith("tuning.engines."):
        assert tops & TVM == set()
    if module.startswith(("tuning.engines", "tuning.logs")):
        assert tops & DJANGO == set()


@pytest.mark.parametrize("path", sources(*PRODUCT), ids=module_of)
def test_the_product_doesnt_import_the_tests(path: Path) -> None:
    assert "tests" not in {name.partition(".")[0] for name in imports_of(path)}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import tvm.ir", "tvm.ir"),
        ("def f():\n    from tvm import ir", "tvm.ir"),
        ("if TYPE_CHECKING:\n    from tuning.models import Run", "tuning.models.Run"),
        ("from . import jobs", "tuning.engines.jobs"),
        ("from .. import jobs", "tuning.jobs"),
        ("from ..jobs import tune", "tuning.jobs.tune"),
    ],
)
def test_every_form_of_import_is_found(source: str, found: str) -> None:
    assert found in set(imported(source, "tuning.engines"))


def test_a_circular_import_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None

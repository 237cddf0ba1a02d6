"""Which interpreter compiles a run of an older engine: one whose TVM reads the run's records as they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings

from tuning.engines.wire.engines import Engine
from tuning.engines.wire.legacy import Probed
from tuning.host import interpreters

from .legacy_tvm import network_trouble


class NoCompiler(Exception):
    """No interpreter can compile the run; the text says why."""


class Compiler(NamedTuple):
    """An interpreter of the settings, and what it can do."""

    python: Path
    found: Probed


def compiler_for(  # noqa: PLR0913 - what a run says
    engine: Engine,
    interpreter: str,
    versions: Mapping[str, str],
    target: Mapping[str, Any],
    network_kind: str,
    *,
    remote: bool,
    wait: bool = True,
) -> Compiler | None:
    """The run's interpreter, or for one that somebody else tuned the first that will do. Raises `NoCompiler`.

    Unless it is to `wait`, the answer is None while an interpreter hasn't said yet what it can do.
    """
    reasons, pending = [], False
    for name in _names(engine, interpreter):
        asked = interpreters.ask(name) if wait else interpreters.look(name)
        if asked.found is None:
            pending |= asked.pending
            reasons.append(str(asked.error))
            continue
        trouble = (
            _engine_trouble(engine, asked.found)
            or _version_trouble(name, asked.found, versions)
            or _target_trouble(asked.found, str(target["kind"]), remote=remote)
            or network_trouble(asked.found, engine, network_kind)
        )
        if trouble is None:
            return Compiler(settings.LEGACY_PYTHON[name], asked.found)
        reasons.append(trouble)
    if pending:
        return None
    raise NoCompiler(" ".join(reasons))


def _names(engine: Engine, interpreter: str) -> list[str]:
    """The interpreters that come into question. Raises `NoCompiler`."""
    if interpreter:
        try:
            interpreters.path_of(interpreter)
        except interpreters.NoInterpreter as why:
            raise NoCompiler(str(why)) from why
        return [interpreter]
    if not settings.LEGACY_PYTHON:
        raise NoCompiler(
            f"Records of {engine.title} are compiled by an older TVM: name an interpreter that has one in {interpreters.SETTING}."
        )
    return list(settings.LEGACY_PYTHON)


def _engine_trouble(engine: Engine, found: Probed) -> str | None:
    reasons: Mapping[str, str | None] = {str(name): why for name, why in found.engines.items()}
    why = reasons.get(engine.name, "it is missing")
    return f"TVM {found.tvm} has no {engine.title}: {why}." if why else None


def _version_trouble(name: str, found: Probed, versions: Mapping[str, str]) -> str | None:
    """Why records made by these versions can't be used by this TVM; None if the version wasn't recorded."""
    made_by = versions.get("apache-tvm")
    if made_by is None or made_by == found.tvm:
        return None
    return (
        f"Its records were made by TVM {made_by}, but the interpreter {name} has TVM {found.tvm}, "
        "which may read them differently."
    )


def _target_trouble(found: Probed, kind: str, *, remote: bool) -> str | None:
    why = None if remote else found.targets.get(kind, "it is missing")
    return f"TVM {found.tvm} can't use {kind} on this machine: {why}." if why else None

"""Resolves what a user calls a target, in a process of its own: TVM loads neither in the web nor in the worker."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from typing import Any

from django.conf import settings
from typing_extensions import NotRequired, TypedDict

from tuning.validation import Invalid
from tuning.wording import target_label

TIMEOUT_S = 60
LONGEST = 4000
"""Characters of a target's JSON: it is stored with the run and sent with each of its changes."""


class TargetDict(TypedDict):
    """A resolved target: the dict for TVM, the device that it runs on, and a short label."""

    target: dict[str, Any]
    device: str
    label: str
    float16: NotRequired[bool]
    """Whether it has instructions for float16."""
    warning: NotRequired[str | None]
    """Why code for it will be slower on its device than it could be."""


def asked(given: Any) -> str | dict[str, Any]:
    """The target that a request names; `this` when it names none. Raises `Invalid`."""
    if given in (None, ""):
        return "this"
    if not isinstance(given, (str, dict)):
        raise Invalid({"target": "Must be `this`, a tag, or a target's JSON."})
    return given


def resolve(target: str | dict[str, Any]) -> TargetDict:
    """The target for TVM of `this`, a tag, JSON text or a dict. Raises `Invalid` with the reason for `target`."""
    return _resolved(target, remote=False)


def resolve_elsewhere(target: str | dict[str, Any]) -> TargetDict:
    """The same for a device that isn't this machine's: it need only be built here."""
    return _resolved(target, remote=True)


def _resolved(target: str | dict[str, Any], *, remote: bool) -> TargetDict:
    try:
        text = target if isinstance(target, str) else json.dumps(target)
    except RecursionError as error:
        raise Invalid({"target": "It is nested too deeply."}) from error
    if len(text) > LONGEST:
        raise Invalid({"target": f"Must be at most {LONGEST:,} characters long."})
    answer = json.loads(_ask(text.strip(), remote=remote))
    if "error" in answer:
        raise Invalid({"target": answer["error"]})
    resolved: TargetDict = answer | {"label": target_label(answer["target"])}
    return resolved


@lru_cache(maxsize=1)
def tags() -> list[str]:
    """The tags that TVM knows and that can be tuned for; asked once, which takes a few seconds. Raises `Invalid`."""
    found: list[str] = json.loads(_answer_of("tuning.engines.oneshot.tags", ""))
    return found


@lru_cache(maxsize=64)
def _ask(text: str, *, remote: bool) -> str:
    """Cached: the answer for one machine doesn't change, and each costs the import of TVM. Failures aren't."""
    return _answer_of("tuning.engines.targets.resolving", json.dumps({"target": text, "remote": remote}))


def _answer_of(module: str, question: str) -> str:
    command = [sys.executable, "-m", module]
    try:
        done = subprocess.run(
            command,
            check=False,
            input=question,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            cwd=settings.BASE_DIR,
        )
    except subprocess.TimeoutExpired as error:
        raise Invalid({"target": f"TVM did not answer within {TIMEOUT_S} s whether it can build for this."}) from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise Invalid({"target": f"TVM can't say whether it can build for this: {said[-1]}"})
    return done.stdout

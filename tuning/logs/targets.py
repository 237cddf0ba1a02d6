"""A target as text (`cuda -keys=cuda,gpu -arch=sm_80`) into JSON, by TVM's rules but without TVM."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

LISTS = frozenset({"keys", "libs", "mattr", "jit"})
TEXTS = frozenset({"arch", "device", "mabi", "march", "mcpu", "mfloat-abi", "model", "mtriple", "runtime", "tag"})
"""Attributes that are text even if they look like a number."""
TRUTHS = frozenset({"fast-math", "link-params", "system-lib"})
WHOLE = re.compile(r"-?\d+\Z")


def parsed(text: str, host: str = "") -> dict[str, Any]:
    """The target as JSON, with its `host` inside. Raises `ValueError` for text that isn't a target."""
    target = _from_json(text) if text.lstrip().startswith("{") else _from_words(text)
    if "host" not in target and host.strip():
        target["host"] = parsed(host)
    return target


def _from_json(text: str) -> dict[str, Any]:
    target = json.loads(text)
    if isinstance(target, dict) and isinstance(target.get("kind"), str):
        return target
    raise ValueError("a target as JSON needs a `kind`")


def _from_words(text: str) -> dict[str, Any]:
    kind, *words = shlex.split(text) or [""]
    if not kind or kind.startswith("-"):
        raise ValueError(f"{text[:80]!r} isn't a target: it should begin with its kind, for example llvm")
    target: dict[str, Any] = {"kind": kind}
    waiting = ""  # Old TVMs also wrote `-target armv7l`, without an equals sign.
    for word in words:
        if waiting and not word.startswith("-"):
            target[waiting], waiting = _value(waiting, word), ""
            continue
        name, equals, value = word.lstrip("-").partition("=")
        target[name] = _value(name, value) if equals else True
        waiting = "" if equals else name
    return target


def _value(name: str, text: str) -> Any:
    if name == "host":
        return parsed(text)
    if name in LISTS:
        return [each for each in text.split(",") if each]
    if name in TRUTHS:
        return text.lower() in {"1", "true"}
    return int(text) if name not in TEXTS and WHOLE.match(text) else text

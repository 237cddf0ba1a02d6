"""Resolves targets in sandboxed processes: TVM loads neither in the web process nor in the worker."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from typing import Any

from typing_extensions import NotRequired, TypedDict

from tuning.engines.wire import target_fields
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.targets import ListTags, Resolve, Tags, TargetInfo
from tuning.validation import Busy, Invalid
from tuning.wording import target_label

from . import admission, sandbox

RESOLVER, TAGS = "tuning.engines.oneshot.resolving", "tuning.engines.oneshot.listing.tags"
"""The programs of the child processes."""
LONGEST = 4000
"""Characters of a target's JSON: it is stored with the run and sent with each of its changes."""


KEPT = 64
"""Answers."""


class TargetDict(TypedDict):
    """A resolved target: the dict for TVM, the device that it runs on, and a short label."""

    target: dict[str, Any]
    device: str
    label: str
    float16: NotRequired[bool]
    """Whether it has instructions for float16."""
    warning: NotRequired[str | None]
    """Why code for it will be slower on its device than it could be."""
    needs: NotRequired[list[str]]
    """Of a CPU: its architecture, and the instructions that code for it may use."""


def asked(given: Any) -> str | dict[str, Any]:
    """The target that a request names; `this` if it has none. One that was left empty is refused. Raises `Invalid`."""
    if given is None:
        return "this"
    if not isinstance(given, (str, dict)):
        raise Invalid({"target": "Must be `this`, a tag, or a target's JSON."})
    if isinstance(given, str) and not given.strip():
        raise Invalid({"target": "Enter a target, or `this` for this machine's CPU."})
    return given


def resolve(target: str | dict[str, Any]) -> TargetDict:
    """The target for TVM of `this`, a tag, JSON text or a dict. Raises `Invalid` with the reason for `target`."""
    return _resolved(target, remote=False)


def this_machine() -> TargetDict:
    """The target of this machine's CPU, with what it can run as `needs`. Raises `Invalid` and `Busy`."""
    return _resolved("this", remote=False)


def resolve_elsewhere(target: str | dict[str, Any]) -> TargetDict:
    """As `resolve`, for a device of another machine: this one need only build for it."""
    return _resolved(target, remote=True)


@lru_cache(maxsize=1)
def tags() -> list[str]:
    """The tags that TVM knows and that can be tuned for; asked once, which takes a few seconds. Raises `Invalid`."""
    return _answer(TAGS, ListTags(**sandbox.limits(), quietly=False), Tags).names


def checked(target: str | dict[str, Any], kinds: target_fields.Kinds = target_fields.KINDS) -> str | dict[str, Any]:
    """The target's name, or its fields, of which TVM knows all. Raises `Invalid`."""
    try:
        text = target if isinstance(target, str) else json.dumps(target)
    except RecursionError as error:
        raise Invalid({"target": "It is nested too deeply."}) from error
    if not _is_unicode(text):
        raise Invalid({"target": "It has a character that isn't Unicode."})
    if len(text) > LONGEST:
        raise Invalid({"target": f"Must be at most {LONGEST:,} characters long."})
    try:
        return target_fields.checked(text, kinds)
    except target_fields.TargetRefused as refused:
        raise Invalid({"target": str(refused)}) from refused


def _resolved(target: str | dict[str, Any], *, remote: bool) -> TargetDict:
    asked = checked(target)
    # Differently written ones are asked about once.
    text = asked if isinstance(asked, str) else json.dumps(asked, sort_keys=True)
    # A new dict each time: what is cached is shared.
    resolved: TargetDict = json.loads(_ask(text, remote=remote))
    resolved["label"] = target_label(resolved["target"])
    return resolved


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # Half of a surrogate pair, which JSON can write.
        return False
    return True


def _ask(text: str, *, remote: bool) -> str:
    """The JSON of a `TargetDict`. Raises `Invalid`, and `Busy` if too many targets are being resolved already.

    Cached, except for failures: on one machine the answer stays the same, and each costs the import of TVM. Whoever asks for a target
    that is being resolved waits for that answer.
    """
    key = (text, remote)
    while True:
        answer, mine = _shared(key)
        if mine:
            return _answered(answer, key)
        if answer.done():
            return answer.result()
        with admission.inspections.ticket(admission.asking.get()), suppress(Busy):  # Of whoever asked first.
            return answer.result()


_answers: dict[tuple[str, bool], Future[str]] = {}
"""By text and whether it is for a remote device; the ones used latest are last."""
_answers_lock = threading.Lock()


def _shared(key: tuple[str, bool]) -> tuple[Future[str], bool]:
    """The answer, which may be on its way, and whether it is the caller who has to find it."""
    with _answers_lock:
        known = _answers.pop(key, None)
        _answers[key] = answer = known or Future()
        if len(_answers) > KEPT:
            del _answers[next(iter(_answers))]
    return answer, known is None


def _answered(answer: Future[str], key: tuple[str, bool]) -> str:
    """Find the answer for all who wait. A failure isn't kept."""
    try:
        answer.set_result(_asked(key[0], remote=key[1]))
    except BaseException as error:
        with _answers_lock:
            _answers.pop(key, None)
        answer.set_exception(error)
        raise
    return answer.result()


def _asked(text: str, *, remote: bool) -> str:
    limits = sandbox.limits()
    if "cuda" in text or "nvidia" in text:
        limits["memory_mb"] = sandbox.NO_LIMIT_MB
    found = _answer(RESOLVER, Resolve(target=text, remote=remote, quietly=False, **limits), TargetInfo)
    return json.dumps({name: getattr(found, name) for name in TargetInfo.__struct_fields__})


def _answer(module: str, question: Resolve | ListTags, kind: type[sandbox.Answer]) -> sandbox.Answer:
    """Not at low priority, unlike other sandboxed processes: users wait for a form, and it takes a second."""
    try:
        return sandbox.ask_once(module, question, kind)
    except sandbox.NoAnswer as error:
        raise Invalid({"target": f"TVM can't say whether it can build for this. {error}"}) from error
    except Refused as error:
        raise Invalid({"target": str(error)}) from error

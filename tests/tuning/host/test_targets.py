"""Targets as users name them are resolved by a sandboxed process."""

from __future__ import annotations

from typing import Any

import pytest

from tuning.host import sandbox, targets
from tuning.validation import Invalid


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    targets._answers.clear()
    targets.tags.cache_clear()


def test_a_target_that_was_left_empty_isnt_this_machine() -> None:
    assert targets.asked(None) == "this"
    for empty in ("", "  ", "\n"):
        with pytest.raises(Invalid) as refused:
            targets.asked(empty)
        assert refused.value.fields == {"target": "Enter a target, or `this` for this machine's CPU."}


@pytest.mark.tvm
def test_this_machine_names_its_processor_and_cores() -> None:
    resolved = targets.resolve("this")
    assert resolved["device"] == "cpu"
    assert resolved["target"]["kind"] == "llvm"
    assert resolved["target"]["mcpu"]
    assert resolved["target"]["num-cores"] >= 1
    assert resolved["label"].startswith(f"llvm · {resolved['target']['mcpu']} · ")
    assert set(resolved) == {"target", "device", "label", "float16", "warning", "needs"}


@pytest.mark.tvm
def test_a_resolved_target_resolves_to_itself() -> None:
    resolved = targets.resolve("this")
    assert targets.resolve(resolved["target"]) == resolved


@pytest.mark.tvm
@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("nvidia/no-such-card", "TVM doesn't know a target tag nvidia/no-such-card."),
        ("{", "The target isn't valid JSON: "),
        ('{"kind": "abacus"}', "Targets of kind abacus can't be tuned yet, only llvm and cuda."),
        ("llvm -mcpu=znver4", '"llvm -mcpu=znver4" isn\'t a target: options are given as JSON'),
        ("[1, 2]", '"[1, 2]" isn\'t a target: options are given as JSON'),
    ],
)
def test_it_says_why_a_target_is_refused(target: str, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        targets.resolve(target)
    said = refused.value.fields["target"]
    assert said.startswith(why)
    assert "Traceback" not in said


@pytest.mark.tvm
def test_it_lists_tags() -> None:
    assert {"nvidia/nvidia-a100", "arm/rasp4b"} < set(targets.tags())


@pytest.mark.parametrize(
    "target",
    [
        {"kind": "llvm", "cl-opt": ["--no-such-option"]},
        '{"kind": "llvm", "cl-opt": ["--no-such-option"]}',
        ' \n{"kind": "llvm", "cl-\\u006fpt": ["--no-such-option"]}',
        '{"cl-opt": ["-x"], "kind": "cuda", "kind": "llvm"}',
        {"kind": "cuda", "host": {"kind": "llvm", "cl-opt": ["-x"]}},
    ],
)
def test_options_of_llvm_are_refused_before_a_process_starts(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_ask", lambda *_args, **_kwargs: pytest.fail("it asked"))
    with pytest.raises(Invalid, match="cl-opt"):
        targets.resolve(target)


def test_tvm_isnt_asked_about_a_huge_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_ask", lambda _text: pytest.fail("it asked"))
    for target in ("x" * 1_000_000, {"kind": "llvm", "keys": ["k"] * 10_000}):
        with pytest.raises(Invalid, match="characters long"):
            targets.resolve(target)


def test_a_deeply_nested_target_is_refused() -> None:
    target: dict[str, Any] = {}
    for _ in range(5000):
        target = {"a": target}
    with pytest.raises(Invalid, match="deeply"):
        targets.resolve(target)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(Invalid, match="isn't Unicode"):
        targets.resolve("\ud800")


MISBEHAVIOR = [
    ("hang", r"longer than the 2 s that it may take here \(TUNEBOARD_INSPECT_S\)"),
    ("memory", "more than the 4,096 MiB of memory that it may use here"),
    (
        "kill",
        "at the step “Misbehaving”: its process was killed by SIGSEGV. Its last line: LLVM ERROR: out of registers",
    ),
    ("exit", "ended with status 3"),
    ("silence", "ended with status 0"),
]


@pytest.mark.parametrize(("how", "words"), MISBEHAVIOR, ids=[how for how, _ in MISBEHAVIOR])
def test_a_process_that_gives_no_answer_is_an_error_of_the_field(
    how: str, words: str, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    if how == "hang":
        settings.INSPECT_S = 2
    monkeypatch.setattr(targets, "RESOLVER", "tests.fake_child")
    monkeypatch.setenv("TVM_FAKE_CHILD", how)
    with pytest.raises(Invalid, match=words) as invalid:
        targets.resolve("this")
    assert list(invalid.value.fields) == ["target"]


def test_processor_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "RESOLVER", "tests.fake_child")
    monkeypatch.setenv("TVM_FAKE_CHILD", "spin")
    monkeypatch.setattr(sandbox, "limits", lambda: {"memory_mb": 4096, "cpu_s": 1})
    with pytest.raises(Invalid, match=r"Misbehaving took more than 1 s of processor time \(TUNEBOARD_INSPECT_S\)"):
        targets.resolve("this")


def test_an_answer_is_cached_and_a_failure_isnt(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    started = sandbox._started

    def counted(command: list[str], *args: Any) -> Any:
        asked.append(command[-1])
        return started(command, *args)

    monkeypatch.setattr(sandbox, "_started", counted)
    monkeypatch.setattr(targets, "RESOLVER", "tests.fake_child")
    monkeypatch.setenv("TVM_FAKE_CHILD", "exit")
    for _ in range(2):
        with pytest.raises(Invalid, match="ended with status 3"):
            targets.resolve("this")
    assert len(asked) == 2
    monkeypatch.setenv("TVM_FAKE_CHILD", "")
    first = targets.resolve("this")
    first["target"].clear()
    assert targets.resolve("this")["target"] == {"kind": "llvm"}, "each caller has a dict of its own"
    assert len(asked) == 3

"""What is decided before an engine's workers are forked."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tuning.engines.forking import fork_server
from tuning.engines.targets.resolving import TargetRefused, kind_of


def test_a_process_with_threads_is_not_forked() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="threads"):
            fork_server.start_fork_server()
    finally:
        over.set()
        thread.join()


@pytest.mark.tvm
@pytest.mark.filterwarnings("default")  # TVM's own.
@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("this", "llvm"),
        ("nvidia/nvidia-a100", "cuda"),
        ({"kind": "cuda"}, "cuda"),  # TVM would ask the GPU what it is.
        ('{"kind": "llvm", "mcpu": "znver4"}', "llvm"),
    ],
)
def test_a_kind_is_known_without_touching_a_device(target: Any, kind: str) -> None:
    assert kind_of(target) == kind


@pytest.mark.tvm
@pytest.mark.filterwarnings("default")
def test_what_is_no_target_is_refused_before_anything_is_forked() -> None:
    with pytest.raises(TargetRefused):
        kind_of("nvidia/no-such-card")

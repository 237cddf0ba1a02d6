"""`python -m tuning.engines.oneshot.resolving` answers `Resolve` with the `TargetInfo` of the target that a user named."""

from __future__ import annotations

from tuning.engines.targets import resolving
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.target_fields import TargetRefused
from tuning.engines.wire.targets import Resolve, TargetInfo

from . import serving


def resolve(question: Resolve) -> TargetInfo:
    """Raises `Refused`."""
    try:
        resolved = resolving.resolve(question.target, remote=question.remote)
    except TargetRefused as error:
        raise Refused(str(error)) from error
    float16, warning = resolving.remarks(resolved.target, remote=question.remote)
    return TargetInfo(resolved.target, resolved.device, float16, warning, resolving.needs(resolved.target))


def _answer(question: Resolve, pipe: serving.Pipe) -> None:
    pipe.step("Loading TVM")
    import tvm  # noqa: F401

    pipe.step("Resolving the target")
    pipe.send(resolve(question))


def main() -> None:
    serving.serve(Resolve, _answer, "TVM can't use this target")


if __name__ == "__main__":
    main()

"""`python -m tuning.engines.oneshot.listing.operators` answers `ListOperators` with the operators that uploaded models may have."""

from __future__ import annotations

from tuning.engines.oneshot import serving
from tuning.engines.wire.inspecting import ListOperators, Operators


def operators() -> Operators:
    from tuning.engines.networks import operators

    return operators.known()


def main() -> None:
    serving.serve(ListOperators, lambda _, pipe: pipe.send(operators()), "TVM can't list its operators")


if __name__ == "__main__":
    main()

"""The product's own member of a run's pool, which also notes when it takes candidates and has their answers.

`python -m tests.benchmarks.fleet.member KEY`, in place of `tuning.work.pool.member`.
"""

from __future__ import annotations

from tuning.engines.wire.protocol import Measured
from tuning.work.pool import member
from tuning.work.pool.channel import Answer, Said, Taken

from .stamps import Stamps


class StampingMember(member.Member):
    """Notes what it says, at the moment that it knows it."""

    def __init__(self, part: member.Part) -> None:
        super().__init__(part)
        self._stamps = Stamps()

    def _tell(self, said: Said) -> None:
        if isinstance(said, Taken):
            self._stamps.add("taken", said.id, said.member)
        elif isinstance(said, Answer) and isinstance(said.of, Measured):
            self._stamps.add("measured", said.of.id, said.member, said.of.measure_s or 0.0)
        super()._tell(said)


if __name__ == "__main__":
    member.Member = StampingMember  # type: ignore[misc]
    member.main()

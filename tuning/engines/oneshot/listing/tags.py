"""`python -m tuning.engines.oneshot.listing.tags` answers `ListTags` with the target tags that can be tuned for."""

from __future__ import annotations

from tuning.engines.oneshot import serving
from tuning.engines.wire.target_fields import KINDS
from tuning.engines.wire.targets import ListTags, Tags


def tags() -> list[str]:
    from tvm.target import Target, tag

    return sorted(str(name) for name in tag.list_tags() if str(Target(name).kind.name) in KINDS)


def main() -> None:
    serving.serve(ListTags, lambda _, pipe: pipe.send(Tags(tags())), "TVM can't list its target tags")


if __name__ == "__main__":
    main()

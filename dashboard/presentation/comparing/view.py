"""The compare page's view, which is its URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args, get_type_hints
from urllib.parse import urlencode

from django.urls import reverse

from tuning.validation import natural


@dataclass(frozen=True)
class View:
    """The page's whole state. If `baseline` is None, it is the first run."""

    runs: tuple[int, ...]
    baseline: int | None = None
    x: Literal["trials", "time"] = "trials"
    scale: Literal["log", "linear"] = "log"
    values: Literal["absolute", "relative"] = "absolute"
    sort: Literal["total", "difference"] = "total"
    per: Literal["network", "execution"] = "network"
    """Whether latencies of tasks are multiplied by their weights."""
    other: int | None = None
    """The run whose difference from the baseline is taken apart; None means the first that isn't the baseline."""

    @classmethod
    def of(cls, runs: tuple[int, ...], baseline: int | None, asked: Mapping[str, str]) -> View:
        """The view of a URL; missing and unknown values become the default."""
        hints = get_type_hints(cls)
        words = {name: asked[name] for name in ("x", "scale", "values", "sort", "per") if name in asked}
        known: dict[str, Any] = {name: word for name, word in words.items() if word in get_args(hints[name])}
        view = cls(runs, baseline, **known)
        named = {str(key): key for key in view.others}
        return replace(view, other=named.get(asked.get("other", "")))

    @classmethod
    def posted(cls, runs: tuple[int, ...], fields: Mapping[str, str]) -> View:
        """The view of a form's `fields`, of these runs in the form's order."""
        given = fields.get("runs", "").split(",")
        ordered = sorted(runs, key=lambda key: given.index(str(key)) if str(key) in given else len(given))
        return cls.of(tuple(ordered), natural(fields.get("baseline", "")), fields)

    @property
    def fields(self) -> dict[str, Any]:
        """What a form sends to lead back to this view."""
        return self._query()

    @property
    def encoded(self) -> str:
        """As the query of an address."""
        return urlencode(self._query(), safe=",")

    @property
    def others(self) -> tuple[int, ...]:
        """The runs that aren't the baseline."""
        base = self.runs[0] if self.baseline is None else self.baseline
        return tuple(key for key in self.runs if key != base)

    @property
    def against(self) -> int:
        """The run whose difference from the baseline is taken apart."""
        return self.other or self.others[0]

    def url(self, **changes: Any) -> str:
        """The URL of the view with these changes."""
        return f"{reverse('compare')}?{urlencode(self._query(**changes), safe=',')}"

    def _query(self, **changes: Any) -> dict[str, Any]:
        """What isn't the default, the runs first."""
        changed = asdict(replace(self, **changes))
        if changed["baseline"] not in changed["runs"][1:]:
            changed["baseline"] = None
        if changed["other"] not in View(changed["runs"], changed["baseline"]).others[1:]:
            changed["other"] = None
        defaults = asdict(View(changed["runs"]))
        query = {name: value for name, value in changed.items() if value != defaults[name]}
        return {"runs": ",".join(map(str, changed["runs"])), **query}

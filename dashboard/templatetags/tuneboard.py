"""Template filters: quantities, times, labels."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django import template
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer, get_lexer_by_name

from dashboard.accounts import role_of
from dashboard.presentation import machines, networks, notes, units
from dashboard.presentation.charts import series
from dashboard.presentation.sparkline import sparkline
from tuning.models import Run, TrialError
from tuning.wording import ERROR_KINDS, SIMULATED, target_label

register = template.Library()
_QUOTED = re.compile(r"`([^`\n]+)`")


def _of_nothing(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """Inside <template> there is no row yet, and Django passes an empty string."""
    return lambda value: show(None if value == "" else value)


for _figure in (
    units.latency,
    units.flop,
    units.gflops,
    units.count,
    units.percent,
    units.plus_minus,
    units.difference,
    units.signed_latency,
    units.speed,
    units.speed_a_second,
    units.times,
    units.milliseconds,
    units.scientific,
    units.duration,
    units.about,
    units.bound,
):
    register.filter(_figure.__name__, _of_nothing(_figure))

register.filter("bytes_label", units.bytes_label)
register.filter("range", lambda forecast: units.between((forecast.least_s, forecast.most_s)))
register.filter("at_best", machines.at_best)
register.filter("markdown", notes.html)
register.filter("series", series)
register.filter("sparkline", lambda run: sparkline(run.estimates, run.trials_done))
register.filter("shape", networks.shape)
register.filter("signature", networks.signature)
register.filter("target_label", lambda target: target_label(target) or "target not recorded")
register.filter("error_kind", lambda kind: ERROR_KINDS.get(kind, kind))
register.filter("simulated", lambda simulator: f"Times are {SIMULATED.format(simulator=simulator)}")
register.filter("unpacked", networks.unpacked_words)
register.filter("options_label", networks.options_label)


@register.filter
def ago(time: datetime | str | None) -> str | SafeString:
    """How long ago, or date and time, as the user prefers (`static/js/site/times.js`). Also takes ISO 8601."""
    if not time:
        return units.UNKNOWN
    time = _read(time)
    html = '<local-time><time datetime="{}" title="{}">{}</time></local-time>'
    return format_html(html, time.isoformat(), units.moment(time), units.age((timezone.now() - time).total_seconds()))


@register.filter
def moment(time: datetime | str | None) -> str | SafeString:
    """A time to the second in the browser's zone. Also takes ISO 8601."""
    if not time:
        return units.UNKNOWN
    time = _read(time)
    html = '<local-time exact><time datetime="{}">{}</time></local-time>'
    return format_html(html, time.isoformat(), units.moment(time))


def _read(time: datetime | str) -> datetime:
    return datetime.fromisoformat(time) if isinstance(time, str) else time


@register.filter
def with_code(text: object) -> SafeString:
    """A message whose names stand between backticks, as `this`, with these as code. What is HTML already keeps its own."""
    if isinstance(text, SafeString):
        return text
    return mark_safe(_QUOTED.sub(r"<code>\1</code>", escape(str(text))))  # noqa: S308 - escaped


@register.filter
def first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


@register.filter
def tvmscript(text: str) -> SafeString:
    """TVMScript, which is Python, with syntax highlighting."""
    html: str = highlight(text, PythonLexer(), HtmlFormatter(nowrap=True))
    return mark_safe(html)  # noqa: S308 - Pygments has escaped it


@register.filter
def highlighted(text: str, language: str) -> SafeString:
    """Source code with syntax highlighting."""
    html: str = highlight(text, get_lexer_by_name(language), HtmlFormatter(nowrap=True))
    return mark_safe(html)  # noqa: S308 - Pygments has escaped it


@register.filter
def pretty_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


@register.filter
def get(values: Mapping[str, Any], key: str) -> Any:
    """What a mapping has under a key that a template can't write after a dot; None if it has nothing."""
    return values.get(key)


@register.filter
def role(user: User) -> str:
    return role_of(user) or "no role"


@register.filter
def after_first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[2]


@register.filter
def last_line(text: str | None) -> str:
    """The line of a traceback that says what happened."""
    return (text or "").strip().rpartition("\n")[2]


@register.filter
def where(error: TrialError) -> str:
    """The trials and tasks that failed with the error."""
    tasks = ", ".join(str(index) for index in error.tasks)
    return f"trials {error.first_trial} to {error.last_trial} · {'task' if len(error.tasks) == 1 else 'tasks'} {tasks}"


@register.filter
def tone(ratio: float | None) -> str:
    """CSS class of a better or worse latency; none if `units.difference` shows no difference."""
    if ratio is None or abs(ratio - 1) < 0.0005:
        return ""
    return "good" if ratio < 1 else "bad"


@register.filter
def failed_share(run: Run) -> float | None:
    """Share of failed trials; None before the first trial."""
    return run.trials_failed / run.trials_done if run.trials_done else None

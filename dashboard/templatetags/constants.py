"""Constants of the domain and the charts that the browser's modules need too, so that none is written twice."""

from __future__ import annotations

from django import template
from django.utils.html import json_script
from django.utils.safestring import SafeString

from dashboard.presentation import charts
from tuning.models import Compilation, Run
from tuning.wording import ERROR_KINDS

register = template.Library()

LIVE = (*Run.LIVE, *Compilation.LIVE)
CONSTANTS = {
    "statuses": {
        "live": LIVE,
        "ongoing": (Run.Status.QUEUED, *LIVE),
        "stoppable": [status for status in Run.Status.values if Run(status=status).can_stop],
        "extendable": [status for status in Run.Status.values if Run(status=status).can_extend],
        "resumable": Run.RESUMABLE,
        "ended": Run.ENDED,
    },
    "errorKinds": ERROR_KINDS,
    "colors": charts.SERIES,
    "recentTrials": charts.RECENT,
    "failedHeight": charts.FAILED_HEIGHT,
    "noise": charts.NOISE,
}


@register.simple_tag
def constants() -> SafeString:
    """The JSON that `static/js/common/constants.js` reads."""
    return json_script(CONSTANTS, "constants")

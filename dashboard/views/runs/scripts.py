"""What to add to a script of one's own, and watching a file that another process writes."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import LAUNCH
from dashboard.http.access import person
from dashboard.http.errors import status_of
from tuning.actions import projects
from tuning.streams import watches
from tuning.validation import Busy, Conflict, Invalid

TUNERS = (
    (
        "AutoTVM",
        "Also inside the loop over the tasks: calls with the same arguments share a run.",
        (
            'mine = tuneboard.callback("{url}", TOKEN, network="resnet-18", tasks=tasks)\n'
            "tuner.tune(n_trial=64, measure_option=option, callbacks=[mine])"
        ),
    ),
    (
        "auto_scheduler",
        "Its weights make an estimate of the whole network possible.",
        (
            'mine = tuneboard.auto_scheduler_callback("{url}", TOKEN, network="resnet-18", tasks=tasks, task_weights=task_weights)\n'
            "options = auto_scheduler.TuningOptions(num_measure_trials=64, measure_callbacks=[auto_scheduler.RecordToFile(log), mine])"
        ),
    ),
    (
        "MetaSchedule",
        "The argument replaces TVM’s own callbacks, so they are named, too.",
        (
            'mine = tuneboard.meta_schedule_callback("{url}", TOKEN, network="resnet-18")\n'
            'ms.tune_tasks(…, measure_callbacks=[*ms.MeasureCallback.create("default"), mine])'
        ),
    ),
)
"""Each tuner with what there is to know, and the lines to add."""


@require_GET
def own_script(request: HttpRequest) -> HttpResponse:
    """The lines to add for each tuner, with this site's address."""
    return _page(request)


@require_POST
@permission_required(LAUNCH, raise_exception=True)
def watch_start(request: HttpRequest) -> HttpResponse:
    """Have a worker follow a file, and show its run."""
    given = {name: request.POST.get(name, "") for name in ("name", "network", "project")}
    try:
        run = watches.start(request.POST.get("path", ""), person(request), **given)
    except Invalid as invalid:
        return _page(request, invalid.fields)
    except (Conflict, Busy) as refused:
        return _page(request, {"path": str(refused)}, status_of(refused) if isinstance(refused, Busy) else 422)
    return redirect("run_page", run.pk)


def _page(request: HttpRequest, wrong: dict[str, str] | None = None, status: int = 422) -> HttpResponse:
    url = settings.SITE_URL or request.build_absolute_uri("/").rstrip("/")
    context = {
        "url": url,
        "tuners": [(name, about, "import tuneboard\n" + lines.replace("{url}", url)) for name, about, lines in TUNERS],
        "folders": settings.WATCH_FOLDERS,
        "projects": projects.usable(person(request), projects.LAUNCH),
        "wrong": wrong or {},
        "given": request.POST,
    }
    return render(request, "networks/script.html", context, status=status if wrong else 200)

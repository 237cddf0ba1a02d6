"""URL routes. Those of sockets are in `dashboard.asgi`."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

from dashboard.views import (
    account,
    compilations,
    devices,
    health,
    launch,
    library,
    metrics,
    networks,
    session,
    single_sign_on,
    webhooks,
)
from dashboard.views.admin import audit, people, projects, system
from dashboard.views.admin import metrics as admin_metrics
from dashboard.views.runs import compare, listing, notes, page, tasks, trials

from .api import api
from .hosting import HEALTH

handler500 = "dashboard.views.errors.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="run_list")),
    path("runs/", listing.run_list, name="run_list"),
    path("runs/act/", listing.run_act, name="run_act"),
    path("runs/new/", launch.launch, name="launch"),
    path("runs/new/check/", launch.check, name="launch_check"),
    path("runs/new/tags/", launch.target_tags, name="target_tags"),
    path("runs/<int:pk>/", page.run_page, name="run_page"),
    path("runs/<int:pk>/figures/", page.run_figures, name="run_figures"),
    path("runs/<int:pk>/trials/", trials.trials_page, name="run_trials"),
    path("runs/<int:pk>/console/", page.run_console, name="run_console"),
    path("runs/<int:pk>/marks/", listing.run_curation, name="run_curation"),
    path("runs/notes/preview/", notes.notes_preview, name="notes_preview"),
    path("runs/<int:pk>/notes/", notes.run_notes, name="run_notes"),
    path("runs/<int:pk>/stop/", page.run_stop, name="run_stop"),
    path("runs/<int:pk>/resume/", page.run_resume, name="run_resume"),
    path("runs/<int:pk>/extend/", page.run_extend, name="run_extend"),
    path("runs/<int:pk>/compile/", compilations.compile_run, name="run_compile"),
    path("compare/", compare.compare_page, name="compare"),
    path("compilations/<int:pk>/", compilations.compilation_page, name="compilation_page"),
    path("compilations/<int:pk>/figures/", compilations.compilation_figures, name="compilation_figures"),
    path("compilations/<int:pk>/cancel/", compilations.compilation_cancel, name="compilation_cancel"),
    path("compilations/<int:pk>/benchmark/", compilations.compilation_benchmark, name="compilation_benchmark"),
    path("runs/<int:pk>/tasks/<int:index>/", tasks.task_page, name="task_page"),
    path("runs/<int:pk>/tasks/<int:index>/figures/", tasks.task_figures, name="task_figures"),
    path("networks/", networks.network_list, name="network_list"),
    path("networks/builtin/<str:name>/", networks.builtin_page, name="builtin_page"),
    path("networks/<int:pk>/", networks.network_page, name="network_page"),
    path("networks/<int:pk>/extract/", networks.network_extract, name="network_extract"),
    path("networks/<int:pk>/delete/", networks.network_delete, name="network_delete"),
    path("extractions/<int:pk>/", networks.extraction_panel, name="extraction_panel"),
    path("library/", library.library_page, name="library"),
    path("library/<slug:shash>/", library.workload_page, name="workload_page"),
    path("devices/", devices.device_page, name="device_page"),
    path("devices/figures/", devices.device_figures, name="device_figures"),
    path("admin/audit/", audit.audit_page, name="audit_page"),
    path("admin/audit/entries.csv", audit.audit_csv, name="audit_csv"),
    path("webhooks/", webhooks.webhook_page, name="webhook_page"),
    path("webhooks/test/", webhooks.webhook_test, name="webhook_test"),
    path("webhooks/<int:pk>/again/", webhooks.webhook_again, name="webhook_again"),
    path("admin/metrics/", admin_metrics.metrics_page, name="metrics_page"),
    path("admin/metrics/figures/", admin_metrics.metrics_figures, name="metrics_figures"),
    path("metrics", metrics.metrics, name="metrics"),
    path("account/", account.account_page, name="account_page"),
    path("account/password/", account.account_password, name="account_password"),
    path("account/tokens/", account.token_create, name="token_create"),
    path("account/tokens/<int:pk>/revoke/", account.token_revoke, name="token_revoke"),
    path("account/sign-out/", account.sign_out_everywhere, name="sign_out_everywhere"),
    path("admin/people/", people.people_page, name="people_page"),
    path("admin/people/invite/", people.people_invite, name="people_invite"),
    path("admin/people/<int:pk>/", people.person_page, name="person_page"),
    path("admin/people/<int:pk>/link/", people.people_link, name="people_link"),
    path("admin/people/<int:pk>/role/", people.people_role, name="people_role"),
    path("admin/people/<int:pk>/deactivate/", people.people_deactivate, name="people_deactivate"),
    path("admin/people/<int:pk>/reactivate/", people.people_reactivate, name="people_reactivate"),
    path("admin/projects/", projects.projects_page, name="projects_page"),
    path("admin/projects/create/", projects.project_create, name="project_create"),
    path("admin/projects/<int:pk>/", projects.project_page, name="project_page"),
    path("admin/projects/<int:pk>/change/", projects.project_change, name="project_change"),
    path("admin/projects/<int:pk>/delete/", projects.project_delete, name="project_delete"),
    path("admin/projects/<int:pk>/members/", projects.member_add, name="member_add"),
    path("admin/projects/<int:pk>/members/<int:person_pk>/role/", projects.member_role, name="member_role"),
    path("admin/projects/<int:pk>/members/<int:person_pk>/remove/", projects.member_remove, name="member_remove"),
    path("admin/system/", system.system_page, name="system_page"),
    path("sign-in/", session.sign_in, name="sign_in"),
    path("oidc/start/", single_sign_on.start, name="oidc_start"),
    path("oidc/callback/", single_sign_on.callback, name="oidc_callback"),
    path("sign-out/", session.sign_out, name="sign_out"),
    path("login/", session.one_time_login, name="one_time_login"),
    path(HEALTH[1:], health.health, name="health"),
    path("api/v1/", RedirectView.as_view(pattern_name="api:openapi-view")),
    path("api/v1/", api.urls),
]

"""The Machines page: what each machine is and does, filters, what admins do there."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.world import TARGET, make_compilation, make_machine, make_roofline, make_run, make_user, set_beside
from tuning.actions import members, projects
from tuning.models import AuditEntry, Machine, Run, Tally

pytestmark = pytest.mark.django_db
LOAD = {
    "cpus": 8,
    "ours_cores": 2.0,
    "others_cores": 1.1,
    "memory_free": 2**32,
    "disk_free": 2**40,
    "disk_total": 2**41,
}


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(make_user("admin"))
    return client


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def shown(client: Client, query: str = "") -> str:
    answer = client.get(f"/machines/{query}")
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<local-time>.*?</local-time>", "then", answer.content.decode()))


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).replace(" ,", ",")


def row(client: Client, name: str, query: str = "") -> str:
    """The row's words."""
    (found,) = re.findall(rf'<tr data-machine="{name}".*?</tr>', shown(client, query))
    return words(found)


def tuning(where: str, **values: Any) -> Run:
    """A run that a machine of this name tunes; on a device of its own, since each has one run."""
    machine = make_machine(where)
    return make_run(device=where, status="running", machine=machine, started_at=timezone.now(), **values)


def test_one_machine_is_shown_in_full(admin: Client) -> None:
    make_machine("lab-1", load=LOAD)
    page = shown(admin)
    assert "machine-table" not in page
    assert 'role="search"' not in page, "there is nothing to filter"
    text = words(page)
    for said in (
        "lab-1",
        "idle",
        "3.1 of 8",
        "Tuneboard 2.0",
        "others 1.1",
        "4.0 GB",
        "of 8.0 GB",
        "znver4",
        "2 cores",
    ):
        assert said in text, said


def test_it_says_what_keeps_other_machines_from_joining(admin: Client, settings: Any) -> None:
    own = words(shown(admin))
    assert "set REDIS_URL to a Redis or Valkey server" in own
    assert ("set DATABASE_URL to a PostgreSQL server" in own) == (connection.vendor != "postgresql")
    settings.REDIS_URL = "redis://:secret@10.0.0.5:6379/0"
    shared = words(shown(admin))
    assert "REDIS_URL to" not in shared
    assert "secret" not in shared
    assert "python3 manage.py join" in shared


def test_each_state_is_told_in_words(viewer: Client) -> None:
    now = timezone.now()
    run = tuning("tunes", name="resnet")
    proof = make_compilation(
        make_run(status="finished", name="mobilenet"), machine=make_machine("proves"), status="running", started_at=now
    )
    beside = [make_run(status="finished", name=name) for name in ("one", "two")]
    keys = f"{beside[0].pk},{beside[1].pk}"
    set_beside(beside, machine=make_machine("measures"), status="running", started_at=now)
    make_machine("idles")
    make_machine("drained", draining_at=now)
    Run.objects.filter(pk=tuning("drains").pk).update(name="bert")
    Machine.objects.filter(name="drains").update(draining_at=now)
    make_machine("waits", trouble="It has tuneboard 0.1, and the site has 0.2.")
    make_machine("gone", heartbeat_at=now - timedelta(hours=1))
    assert "tuning resnet" in row(viewer, "tunes")
    assert f'href="/runs/{run.pk}/"' in shown(viewer)
    assert "verifying library of mobilenet" in row(viewer, "proves")
    assert f'href="/compilations/{proof.pk}/"' in shown(viewer)
    assert f"measuring runs {keys} side by side" in row(viewer, "measures")
    assert f'href="/compare/?runs={keys}"' in shown(viewer)
    assert re.findall(r'<tr data-machine="([^"]+)"', shown(viewer, "?state=measuring")) == ["measures"]
    assert viewer.get("/api/v1/machines/measures").json()["state"] == "tuning"
    assert "idle" in row(viewer, "idles")
    assert "drained an admin drained it then" in row(viewer, "drained")
    assert "draining an admin drained it then bert" in row(viewer, "drains")
    assert "waiting It has tuneboard 0.1, and the site has 0.2." in row(viewer, "waits")
    assert "lost last heard from then" in row(viewer, "gone")


@pytest.mark.parametrize(
    ("others", "busy", "said"), [(2.1, True, True), (2.0, True, False), (8.0, False, False), (None, True, False)]
)
def test_it_warns_of_a_machine_that_measures_while_others_use_it(
    viewer: Client, others: float | None, busy: bool, said: bool
) -> None:
    machine = tuning("lab-1").machine if busy else make_machine("lab-1")
    make_machine("lab-2", load={"cpus": 8, "others_cores": 8.0})
    assert machine
    Machine.objects.filter(pk=machine.pk).update(load=LOAD | {"others_cores": others})
    text = words(shown(viewer))
    assert ("lab-1 measures while other processes use more than a quarter" in text) == said
    assert ("disturbed by other processes" in row(viewer, "lab-1")) == said
    assert "disturbed by" not in row(viewer, "lab-2"), "it measures nothing"
    found = viewer.get("/api/v1/machines/lab-1").json()
    assert found["disturbed"] == said


def test_what_is_not_known_is_not_made_up(viewer: Client) -> None:
    make_machine("new", cpu="", cores=0, target=None)
    make_machine("other")
    text = row(viewer, "new")
    assert text.count("not recorded") == 2, "processors; memory and disk"
    assert "nothing" in text
    assert "not known yet · Tuneboard" in words(shown(viewer))


def test_it_shows_the_last_hour(viewer: Client) -> None:
    make_machine("lab-1")
    make_machine("lab-2", devices=["cpu", "cuda:0"])
    for name in ("lab-1", "lab-2"):
        Tally.objects.add("cpu", {"trials": 12, "failed:run": 2, "tuned_s": 1800}, name)
    assert "30 min 00 s 12 trials, 2 failed" in row(viewer, "lab-1")
    widths = re.findall(r'<rect class="ours" width="([0-9.]+)" height="6"/></svg><span class="num">30', shown(viewer))
    assert widths == ["50.0", "25.0"], "of the hour, and of both devices"


def test_equal_machines_are_a_group(viewer: Client) -> None:
    for name in ("a", "c"):
        make_machine(name, versions={"tuneboard": "1", "apache-tvm": "0.27", "python": name})
    make_machine("b", cpu="cortex-a72", cores=4, versions={"tuneboard": "1", "apache-tvm": "0.27"})
    make_machine("d", versions={"tuneboard": "2", "apache-tvm": "0.27"})
    heads = [words(one).strip() for one in re.findall(r'<tr class="group">(.*?)</tr>', shown(viewer))]
    assert heads == [
        "znver4 · 2 cores · Tuneboard 1 · TVM 0.27 2 machines",
        "cortex-a72 · 4 cores · Tuneboard 1 · TVM 0.27 1 machine",
        "znver4 · 2 cores · Tuneboard 2 · TVM 0.27 1 machine",
    ]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a-1", "a-2", "b-1"]),
        ("?q=A-", ["a-1", "a-2"]),
        ("?cpu=cortex-a72", ["b-1"]),
        ("?state=drained", ["a-2"]),
        ("?state=tuning", []),
        ("?q=1&state=idle&cpu=znver4", ["a-1"]),
    ],
)
def test_filters_leave_the_machines_that_match(viewer: Client, query: str, names: list[str]) -> None:
    make_machine("a-1")
    make_machine("a-2", draining_at=timezone.now())
    make_machine("b-1", cpu="cortex-a72")
    page = shown(viewer, query)
    assert re.findall(r'<tr data-machine="([^"]+)"', page) == names
    assert ("No machine matches." in page) == (not names)
    assert f'hx-get="/machines/{query.replace("&", "&amp;")}"' in page, "it refreshes what is filtered"


def test_many_machines_cost_no_more_queries(viewer: Client) -> None:
    tuning("first")
    Run.objects.filter(pk=make_run().pk).update(chosen_machine=Machine.objects.get())

    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            shown(viewer)
        return len(caught)

    few = queries()
    for number in range(30):
        tuning(f"m{number}")
        make_run(name=f"waits-{number}")
    assert queries() == few


def test_queues_say_what_waits_and_who_serves_it(viewer: Client) -> None:
    make_machine("lab-1")
    make_machine("lab-2", draining_at=timezone.now())
    make_run(queued_at=timezone.now() - timedelta(minutes=9))
    make_run(device="cuda:0")
    queues = dict(re.findall(r'<tr data-queue="([^"]+)">(.*?)</tr>', shown(viewer)))
    assert words(queues["cpu"]).split() == [
        "cpu",
        "runs",
        "to",
        "tune,",
        "libraries",
        "to",
        "verify,",
        *("runs", "to", "measure", "side", "by", "side"),
        "1",
        "then",
        "lab-1",
    ]
    assert "1 then no machine that takes work" in words(queues["cuda:0"])
    assert "0 – lab-1" in words(queues["compile"])


def test_an_admin_drains_resumes_and_forgets(admin: Client) -> None:
    make_machine("lab-1")
    make_machine("lab-2")

    def act(what: str, **given: str) -> Any:
        return admin.post(f"/machines/lab-1/{what}/", given, follow=True)

    drained = act("drain", here="q=lab&cpu=znver4&state=")
    assert drained.redirect_chain == [("/machines/?q=lab&cpu=znver4", 302)], "the filters stay"
    assert "lab-1 takes no more work." in drained.content.decode()
    assert Machine.objects.get(name="lab-1").is_draining
    assert "lab-1 is already being drained." in act("drain").content.decode().replace("&#x27;", "'")
    assert "lab-1 takes work again." in act("resume").content.decode()
    assert "lab-1 is idle: drain it" in act("forget").content.decode()
    act("drain")
    assert "lab-1 is forgotten. Its runs stay." in act("forget").content.decode()
    assert list(Machine.objects.values_list("name", flat=True)) == ["lab-2"]
    assert act("drain").status_code == 404
    kept = AuditEntry.objects.filter(refused=False, object_kind="machine").order_by("pk")
    assert list(kept.values_list("action", flat=True)) == [
        "machine.drain",
        "machine.resume",
        "machine.drain",
        "machine.forget",
    ]


@pytest.mark.parametrize("name", ["https://elsewhere.example", "//elsewhere.example", "q=//elsewhere.example"])
def test_the_way_back_leads_nowhere_else(admin: Client, name: str) -> None:
    make_machine("lab-1")
    answer = admin.post("/machines/lab-1/drain/", {"here": name})
    assert answer.headers["Location"].startswith("/machines/")


def test_others_are_told_that_they_may_not(viewer: Client) -> None:
    make_machine("lab-1")
    page = shown(viewer)
    assert "Only the site’s admins can drain" in page
    assert "Drain</button>" not in page
    assert viewer.post("/machines/lab-1/drain/").status_code == 403
    assert not Machine.objects.get().is_draining


def test_whoever_is_in_another_project_sees_that_it_is_busy_and_no_more(client: Client) -> None:
    vision = projects.create("vision")
    grace = make_user("viewer", "grace")
    members.add(vision, "grace", "viewer")
    grace.memberships.exclude(project=vision).delete()
    client.force_login(grace)
    run = tuning("lab-1", name="secret")
    make_machine("lab-2")
    assert "tuning a run of another project" in row(client, "lab-1")
    assert "secret" not in shown(client)
    assert f"/runs/{run.pk}/" not in shown(client)


def test_the_old_address_leads_there(viewer: Client) -> None:
    answer = viewer.get("/devices/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/machines/")


def test_a_site_without_machines_says_so(viewer: Client) -> None:
    assert "No machine yet" in shown(viewer)


def test_htmx_gets_only_the_part_that_it_refreshes(viewer: Client) -> None:
    make_machine("lab-1")
    part = viewer.get("/machines/?q=lab", headers={"HX-Request": "true"}).content.decode()
    assert part.lstrip().startswith('<div id="machines"')
    assert "lab-1" in part


def test_it_tells_what_a_machine_does_at_best(admin: Client) -> None:
    machine = make_machine("lab-1", load=LOAD)
    assert "Roofline" not in words(shown(admin))
    assert "Measure again" not in words(shown(admin))
    make_roofline(machine)
    text = words(shown(admin))
    assert "Roofline 100 GFLOPS · 400 GB/s on 64.0 KB, 10.0 GB/s on 64.0 MB on 2 threads" in text
    make_machine("lab-2")
    assert "100 GFLOPS" in row(admin, "lab-1")
    assert "GFLOPS" not in row(admin, "lab-2")
    (best,) = admin.get("/api/v1/machines/lab-1").json()["rooflines"]
    assert (best["flops"], best["bandwidths"][0], best["disturbed"]) == (1e11, [2**16, 4e11], False)


def test_a_figure_that_was_measured_under_load_says_so(viewer: Client) -> None:
    make_roofline(make_machine("lab-1", load=LOAD), others_cores=1.5)
    assert "while other processes used 1.5 of 2 processors, so it is too low" in words(shown(viewer))


def test_an_admin_has_it_measured_again(admin: Client) -> None:
    make_roofline(make_machine("lab-1"))
    answer = admin.post("/machines/lab-1/measure/", follow=True)
    text = words(answer.content.decode())
    assert "lab-1 is measured again by its next run for the same target." in text
    assert "and again by its next run" in text
    assert "Measure again" not in text
    assert admin.post("/api/v1/machines/lab-1/measure").status_code == 409


def test_the_target_of_a_strangers_run_isnt_told(viewer: Client) -> None:
    machine = make_machine("lab-1")
    make_roofline(machine, target=TARGET | {"model": "secret"})
    assert viewer.get("/api/v1/machines/lab-1").json()["rooflines"] == []
    make_run(target=TARGET | {"model": "secret"})
    assert len(viewer.get("/api/v1/machines/lab-1").json()["rooflines"]) == 1

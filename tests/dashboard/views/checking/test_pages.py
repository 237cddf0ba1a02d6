"""The pages of regression checks, and what the network's page says of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from tests.world import make_check, make_compilation, make_result, make_user
from tuning.actions import curation
from tuning.models import CheckResult, RegressionCheck
from tuning.queue import jobs

pytestmark = pytest.mark.django_db
SLOWER: dict[str, Any] = {"verdict": "regression", "base_s": 10e-3, "change": 0.2, "noise": 0.02}


@pytest.fixture(autouse=True)
def without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


def client_of(role: str) -> Client:
    client = Client()
    client.force_login(make_user(role))
    return client


class TestPages:
    def test_the_list_says_what_each_has_found(self) -> None:
        check = make_check(name="resnet nightly", state="regression")
        make_result(check, 12e-3, **SLOWER)
        make_check(name="new one", next_at=None, how="benchmark")
        page = client_of("viewer").get("/regressions/")
        for text in (
            "resnet nightly",
            "12.00\u00a0ms",
            "+20.0\u00a0%",
            "every day at 02:00 (UTC)",
            "not measured yet",
            "paused",
        ):
            assertContains(page, text)
        assertNotContains(page, "New check")

    def test_a_check_shows_its_history(self) -> None:
        check = make_check(state="failed", at="02:15", every="6 hours")
        assert check.like is not None
        library = make_compilation(check.like)
        make_result(check, 10e-3, compilation=library, machine="lab-1", versions={"apache-tvm": "0.27.0"})
        make_result(check, None, verdict="failed", error="lld: <undefined>")
        CheckResult.objects.create(of=check, begun_at=timezone.now(), stage="tune")
        page = client_of("operator").get(f"/regressions/{check.pk}/")
        assertContains(page, "every 6 hours, at 02:15, 08:15, … (UTC)")
        assertContains(page, "The latest result failed: lld: &lt;undefined&gt;")
        assertContains(page, f'<a href="/compilations/{library.pk}/">compilation {library.pk}</a>', html=True)
        for text in (
            "on lab-1",
            "0.27.0",
            "tuning",
            "Pin as base",
            check.badge_path,
            'disabled title="A result goes on"',
        ):
            assertContains(page, text)
        viewer = client_of("viewer").get(f"/regressions/{check.pk}/")
        for text in ("Pin as base", "Check now", "New address"):
            assertNotContains(viewer, text)

    def test_it_leads_to_no_library_of_a_run_that_was_deleted(self) -> None:
        check = make_check()
        assert check.like is not None
        make_result(check, compilation=make_compilation(check.like))
        curation.delete(check.like)
        page = client_of("viewer").get(f"/regressions/{check.pk}/")
        assertContains(page, "10.00\u00a0ms")
        assertNotContains(page, "/compilations/")

    def test_its_chart_has_the_base_its_noise_and_what_is_slower(self) -> None:
        check = make_check()
        make_result(check, 10e-3)
        make_result(check, 12e-3, **SLOWER)
        make_result(check, None, verdict="failed", error="lld")
        make_result(check, None, verdict="skipped", error="goes on")
        data = client_of("viewer").get(f"/regressions/{check.pk}/figures/").json()["history"]["data"]
        drawn = {trace["name"]: trace["y"] for trace in data}
        assert (drawn["measured"], drawn["regression"], drawn["base"]) == ([10e-3], [12e-3], [10e-3])
        assert drawn["within noise"] == pytest.approx([10.2e-3, 9.8e-3])
        assert len(drawn["failed"]) == 1

    def test_it_is_made_changed_pinned_and_deleted(self) -> None:
        client, like = client_of("operator"), make_check(name="like").like
        assert like is not None
        assertContains(client.get(f"/regressions/new/?run={like.pk}"), f'value="{like.pk}"')
        bad = client.post("/regressions/new/", {"run": like.pk, "name": "", "at": "2"})
        assert bad.status_code == 422
        assertContains(bad, "Must be a time of day", status_code=422)
        made = client.post("/regressions/new/", {"run": like.pk, "name": "nightly", "at": "02:15", "trials": ""})
        check = RegressionCheck.objects.get(name="nightly")
        place = f"/regressions/{check.pk}/"
        assertRedirects(made, place)
        assertContains(client.get(f"{place}edit/"), 'value="02:15"')
        assertRedirects(client.post(f"{place}edit/", {"name": "weekly", "every": "week", "weekday": "friday"}), place)
        assertContains(client.get(place), "every Friday at 02:15 (UTC)")
        result = make_result(check)
        client.post(f"{place}set/", {"base": result.pk})
        assertContains(client.get(place), "pinned")
        client.post(f"{place}set/", {"base": ""})
        client.post(f"{place}set/", {"paused": "true"})
        check.refresh_from_db()
        assert (check.base, check.is_paused) == (None, True)
        assertContains(client.post(f"{place}set/", {"base": "999"}, follow=True), "is no result of this check")
        client.post(f"{place}run/")
        assertContains(client.post(f"{place}run/", follow=True), "still goes on")
        assertRedirects(client.post(f"{place}delete/"), "/regressions/")
        assert not RegressionCheck.objects.filter(pk=check.pk).exists()

    def test_the_networks_page_warns(self) -> None:
        check = make_check(name="resnet nightly", state="regression")
        make_result(check, 12e-3, **SLOWER)
        page = client_of("viewer").get(f"/networks/{check.network_id}/")
        assertContains(page, 'data-role="regression-alert"')
        assertContains(page, "12.00\u00a0ms: 20.0\u00a0% slower than the base of 10.00\u00a0ms")
        RegressionCheck.objects.update(state="good")
        assertNotContains(client_of("operator").get(f"/networks/{check.network_id}/"), 'data-role="regression-alert"')

    def test_its_times_are_the_zones(self, settings: Any) -> None:
        settings.SCHEDULE_ZONE = ZoneInfo("Europe/Berlin")
        check = make_check(next_at=timezone.now() + timedelta(hours=1))
        assertContains(client_of("viewer").get(f"/regressions/{check.pk}/"), "every day at 02:00 (Europe/Berlin)")


class TestApi:
    def test_a_check_is_made_followed_and_deleted(self) -> None:
        client, like = client_of("operator"), make_check(name="like").like
        assert like is not None
        path = "/api/v1/regression-checks"

        def send(method: str, path: str, body: dict[str, Any]) -> Any:
            return getattr(client, method)(path, body, content_type="application/json")

        refused = send("post", path, {"run": like.pk, "name": "7", "evry": "day"})
        assert refused.status_code == 422
        assert refused.json()["error"]["fields"].keys() == {"name", "evry"}
        made = send("post", path, {"run": like.pk, "name": "nightly", "every": "week", "weekday": "sunday"})
        assert made.status_code == 201
        check = made.json()
        assert (check["state"], check["latest"], check["weekday"], check["time_zone"]) == ("new", None, "sunday", "UTC")
        own = f"{path}/{check['id']}"
        begun = send("post", f"{own}/results", {})
        assert (begun.status_code, begun.json()["verdict"], begun.json()["stage"]) == (202, None, "measure")
        assert send("post", f"{own}/results", {}).status_code == 409
        make_result(RegressionCheck.objects.get(pk=check["id"]))
        first = client.get(f"{own}/results?limit=1").json()
        assert [one["verdict"] for one in first["items"]] == ["first"]
        rest = client.get(f"{own}/results?before={first['next']}").json()
        assert [one["id"] for one in rest["items"]] == [begun.json()["id"]]
        assert send("patch", own, {"paused": True, "name": "later"}).json()["paused"] is True
        assert client.post(f"{own}/badge", {}, content_type="application/json").json()["badge"] != check["badge"]
        assert [one["name"] for one in client.get(path).json()["items"]] == ["later", "like"]
        assert client.delete(own).status_code == 204
        assert client.get(own).status_code == 404

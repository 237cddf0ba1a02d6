"""The badge of a regression check: what it says, and who sees it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from django.test import Client
from django.utils import timezone

from tests.world import make_check, make_result
from tuning.actions.checking import checks
from tuning.models import RegressionCheck

pytestmark = pytest.mark.django_db
SLOWER: dict[str, Any] = {"verdict": "regression", "base_s": 9.26e-3, "change": 0.08, "noise": 0.02}


def said(check: RegressionCheck) -> str:
    """What it says to anybody."""
    response = Client().get(check.badge_path)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "image/svg+xml"
    svg = ET.fromstring(response.content)
    return str(svg.attrib["aria-label"])


@pytest.mark.parametrize(
    ("state", "result", "text"),
    [
        ("new", None, "unknown"),
        ("good", {}, "12.60\u00a0ms · ok"),
        ("regression", SLOWER, "8.0 % slower"),
        ("regression", SLOWER | {"change": 0.314}, "31 % slower"),
        ("failed", {"verdict": "failed", "error": "lld"}, "failing"),
        ("good", {"ended_at": timezone.now() - timedelta(days=4)}, "unknown"),
    ],
    ids=("new", "good", "slower", "much slower", "failing", "old"),
)
def test_it_says_what_the_latest_result_found(state: str, result: dict[str, Any] | None, text: str) -> None:
    check = make_check(name="resnet-18", state=state)
    if result is not None:
        make_result(check, 12.6e-3, **result)
    assert said(check) == f"resnet-18: {text}"


def test_one_that_is_paused_says_nothing() -> None:
    check = make_check(state="good", next_at=None)
    make_result(check)
    assert said(check).endswith(": unknown")


def test_a_name_can_not_break_out_of_it() -> None:
    check = make_check(name='<script>alert(1)</script>"&')
    assert said(check).startswith('<script>alert(1)</script>"&: ')
    assert b"<script" not in Client().get(check.badge_path).content


def test_it_is_sent_again_only_if_it_has_changed() -> None:
    check = make_check(state="good")
    make_result(check)
    first = Client().get(check.badge_path)
    assert "no-cache" in first.headers["Cache-Control"]
    tag = {"if-none-match": first.headers["ETag"]}
    assert Client().get(check.badge_path, headers=tag).status_code == 304
    RegressionCheck.objects.filter(pk=check.pk).update(state="failed")
    assert Client().get(check.badge_path, headers=tag).status_code == 200


def test_only_the_newest_address_is_found() -> None:
    check = make_check()
    before = check.badge_path
    checks.renew_badge(check)
    assert Client().get(before).status_code == 404
    assert said(check).endswith("unknown")
    assert Client().post(check.badge_path).status_code == 405

"""The system page: what confines processes, what is limited, and what the site runs on. Only for admins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import permission_required
from django.core import checks
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.accounts import SEE_SYSTEM
from tuning.reads import system
from tuning.storage.checking import advice
from tuning.storage.figures import stored

OWN_CHECK = "tuneboard.I001"
"""Says what the page shows in more detail."""
PLAIN_HTTP = "Cookies are sent over plain HTTP, too. Set TUNEBOARD_HTTPS=true behind a proxy that serves HTTPS."
PLAIN = {
    "security.W012": PLAIN_HTTP,
    "security.W016": PLAIN_HTTP,
    "security.W018": "DEBUG is on: error pages show settings and code. Never use it where others can reach the site.",
    "security.W020": "ALLOWED_HOSTS is empty: the site answers under no name.",
}
"""Django's warnings in the words of our settings."""


@require_GET
@permission_required(SEE_SYSTEM, raise_exception=True)
def system_page(request: HttpRequest) -> HttpResponse:
    """The page, or the part of it that takes seconds to measure, which htmx asks for."""
    if request.GET.get("part") == "measured":
        return render(request, "admin/_measured.html", _measured())
    context = {
        "versions": system.versions(),
        "places": system.places(),
        "folder": system.folder(),
        "settings": _settings(),
    }
    return render(request, "admin/system.html", context)


def _measured() -> dict[str, Any]:
    return {
        "folder_bytes": system.folder_bytes(),
        "stored": stored(),
        "advice": advice(),
        "warnings": _warnings(),
        "kinds": _kinds(),
        **_in_force(),
    }


def _in_force() -> dict[str, Any]:
    found = system.in_force()
    return {"not_measured": found} if isinstance(found, str) else {"in_force": found}


def _warnings() -> list[tuple[str, str]]:
    """What Django and Tuneboard would warn of before the site is opened to others, each with its hint; in our words where we have some."""
    found = [check for check in checks.run_checks(include_deployment_checks=True) if not check.is_silenced()]
    said = [(PLAIN.get(check.id or "", check.msg), check.hint or "") for check in found if check.id != OWN_CHECK]
    return list(dict.fromkeys(said))


def _kinds() -> list[dict[str, Any]]:
    """What each kind of process reads and writes besides programs and temporary files, and its limits."""
    reading = (settings.INSPECT_MEMORY_MB, settings.INSPECT_S)
    building = (settings.COMPILE_MEMORY_MB, settings.COMPILE_S)
    rows: list[tuple[str, str, str, str, tuple[int, int] | None]] = [
        ("Reads an upload, extracts tasks", "the model", "nothing", "no", reading),
        ("Unpacks a program of torch.export", "its archive", "a temporary copy", "no", reading),
        ("Converts it with PyTorch", "the copy and its interpreter", "a temporary ONNX file", "no", reading),
        ("Resolves a target", "nothing", "nothing", "no", reading),
        ("Applies a schedule to show it", "nothing", "nothing", "no", reading),
        ("Builds a library", "the model", "the library’s folder", "no", building),
        ("Verifies a library", "the model and the library", "nothing", "to a tracker’s devices", building),
        ("Tunes a run", "the model", "the run’s folder", "to a tracker’s devices", None),
        (
            "Tunes with an older TVM",
            "the model and its interpreter",
            "the run’s folder",
            "to a tracker’s devices",
            None,
        ),
    ]
    names = ("what", "reads", "writes", "network", "limits")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _settings() -> dict[str, str]:
    """Those that decide who reaches the site and what it does, without secrets."""
    said: dict[str, Callable[[], Any]] = {
        "ALLOWED_HOSTS": lambda: ", ".join(settings.ALLOWED_HOSTS),
        "TUNEBOARD_HTTPS": lambda: settings.HTTPS,
        "TUNEBOARD_OIDC_ISSUER": lambda: settings.OIDC_ISSUER or "none",
        "TUNEBOARD_PASSWORD_SIGN_IN": lambda: settings.PASSWORD_SIGN_IN,
        "DEBUG": lambda: settings.DEBUG,
        "TUNEBOARD_DEVICES": lambda: ", ".join(settings.DEVICES),
        "TUNEBOARD_TRACKERS": lambda: ", ".join(settings.TRACKERS) or "none",
        "TUNEBOARD_LEGACY_PYTHON": lambda: ", ".join(settings.LEGACY_PYTHON) or "none",
        "TUNEBOARD_TORCH_PYTHON": lambda: settings.TORCH_PYTHON or "none",
        "TUNEBOARD_STORAGE": lambda: settings.STORAGE,
        "TUNEBOARD_URL": lambda: settings.SITE_URL or "where it listens",
        "TUNEBOARD_UPLOAD_MB": lambda: settings.UPLOAD_MB,
        "TUNEBOARD_TIME_ZONE": lambda: settings.SCHEDULE_ZONE.key,
        "TUNEBOARD_KEEP_DELETED_DAYS": lambda: f"{settings.KEEP_DELETED_DAYS:g}",
        "TUNEBOARD_WEBHOOKS": lambda: f"{len(settings.WEBHOOKS)} addresses" if settings.WEBHOOKS else "none",
    }
    return {name: _plain(value()) for name, value in said.items()}


def _plain(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)

"""What is wrong in the variables of single sign-on is said at start, in a line that names the variable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.accounts import ROLES
from dashboard.settings import _ROLES
from tests.live import ROOT, environment
from tuning.validation import is_confidential

VALID = {
    "TUNEBOARD_OIDC_ISSUER": "https://id.tune.example/realms/team",
    "TUNEBOARD_OIDC_CLIENT_ID": "tuneboard",
    "TUNEBOARD_OIDC_CLIENT_SECRET": "s3cret",
    "TUNEBOARD_OIDC_ROLE_CLAIM": "realm_access.roles",
    "TUNEBOARD_OIDC_ROLES": "tune-admins=admin,team=operator",
}
PRINT = """
from dashboard import settings
for name in dir(settings):
    if name.startswith("OIDC_") or name in ("PASSWORD_SIGN_IN", "AUTHENTICATION_BACKENDS"):
        print(name, "=", getattr(settings, name))
"""


def read(tmp_path: Path, **variables: str | None) -> subprocess.CompletedProcess[str]:
    """What settings with these variables are, beside the valid ones; None leaves one out."""
    given = {name: value for name, value in (VALID | variables).items() if value is not None}
    env = environment(tmp_path / "var") | given
    return subprocess.run([sys.executable, "-c", PRINT], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_valid_ones_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    found = read(
        tmp_path,
        TUNEBOARD_OIDC_CLIENT_SECRET=None,
        TUNEBOARD_OIDC_CLIENT_SECRET_FILE=str(secret),
        TUNEBOARD_OIDC_SCOPES="openid,groups",
        TUNEBOARD_OIDC_ADMIT="hd=tune.example, @Tune.Example",
        TUNEBOARD_PASSWORD_SIGN_IN="0",
    )
    said = found.stdout
    assert "OIDC_RP_CLIENT_SECRET = from a file\n" in said
    assert "OIDC_RP_SCOPES = openid groups" in said
    assert "OIDC_ROLES = {'tune-admins': 'admin', 'team': 'operator'}" in said
    assert "OIDC_ADMIT = [('hd', 'tune.example'), ('email', '@tune.example')]" in said
    assert "PASSWORD_SIGN_IN = False" in said
    assert "limits.PasswordLimits', 'dashboard.people.backends.Roles'" in said
    assert "OIDC_USE_PKCE = True" in said


def test_without_a_provider_nothing_of_it_is_there(tmp_path: Path) -> None:
    found = read(tmp_path, **dict.fromkeys(VALID))
    assert "OIDC_ISSUER = \n" in found.stdout
    assert "SingleSignOn" not in found.stdout


WRONG: list[tuple[dict[str, str | None], str, str]] = [
    ({"TUNEBOARD_OIDC_ISSUER": None}, "ISSUER", "must be set, since TUNEBOARD_OIDC_CLIENT_ID is"),
    ({"TUNEBOARD_OIDC_ISSUER": "http://id.tune.example"}, "ISSUER", "must begin with https://"),
    ({"TUNEBOARD_OIDC_ISSUER": "http://localhost.evil.example"}, "ISSUER", "must begin with https://"),
    ({"TUNEBOARD_OIDC_ISSUER": "https://id.tune.example?realm=team"}, "ISSUER", "neither ? nor #"),
    (
        {"TUNEBOARD_OIDC_ISSUER": "https://id.tune.example/.well-known/openid-configuration"},
        "ISSUER",
        "leave /.well-known/openid-configuration out",
    ),
    ({"TUNEBOARD_OIDC_CLIENT_ID": None}, "CLIENT_ID", "must be set"),
    ({"TUNEBOARD_OIDC_CLIENT_SECRET": None}, "CLIENT_SECRET", "must be set"),
    (
        {"TUNEBOARD_OIDC_CLIENT_SECRET": None, "TUNEBOARD_OIDC_CLIENT_SECRET_FILE": "/dev/null"},
        "CLIENT_SECRET",
        "must be set",
    ),
    ({"TUNEBOARD_OIDC_ROLES": None}, "ROLES", "must say who gets which role"),
    ({"TUNEBOARD_OIDC_ROLES": "team=boss"}, "ROLES", "there is no role 'boss'"),
    ({"TUNEBOARD_OIDC_ROLES": "admin"}, "ROLES", "write it like ml-team=operator"),
    ({"TUNEBOARD_OIDC_ROLES": "team=viewer,team=admin"}, "ROLES", "with two roles"),
    ({"TUNEBOARD_OIDC_ROLE_CLAIM": None}, "ROLE_CLAIM", "must name the claim"),
    ({"TUNEBOARD_OIDC_ROLES": "*=viewer"}, "ADMIT", "gives everybody a role"),
    ({"TUNEBOARD_OIDC_ADMIT": "tune.example"}, "ADMIT", "write it like hd=tune.example"),
    ({"TUNEBOARD_OIDC_ADMIT": "email=@tune.example"}, "ADMIT", "write it like hd=tune.example"),
    ({"TUNEBOARD_OIDC_SCOPES": "email"}, "SCOPES", "must contain openid"),
    ({"TUNEBOARD_OIDC_SESSION_HOURS": "0"}, "SESSION_HOURS", ""),
]


@pytest.mark.parametrize(("variables", "named", "said"), WRONG)
def test_an_invalid_one_is_named(tmp_path: Path, variables: dict[str, str | None], named: str, said: str) -> None:
    found = read(tmp_path, **variables)
    assert found.returncode != 0
    assert f'Environment variable "TUNEBOARD_OIDC_{named}" invalid: ' in found.stderr
    assert said in found.stderr
    assert "s3cret" not in found.stderr


def test_the_roles_are_those_of_the_site() -> None:
    assert tuple(ROLES) == _ROLES


@pytest.mark.parametrize(
    ("url", "is_so"),
    [
        ("https://id.tune.example", True),
        ("http://127.0.0.1:8080/x", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:8080", True),
        ("http://localhost", True),
        ("http://10.0.0.5", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://127.0.0.1@evil.example", False),
        ("https://user:password@id.tune.example", False),
        ("https://", False),
        ("https://[", False),
        ("https://id.tune.example/ x", False),
        ("https://id.tune.example/\n", False),
        ("file:///etc/passwd", False),
        ("id.tune.example", False),
    ],
)
def test_what_is_sent_to_these_stays_confidential(url: str, is_so: bool) -> None:
    assert is_confidential(url) is is_so

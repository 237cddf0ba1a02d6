"""Settings, read from the environment, or from files that it names (docs/settings.md lists every variable).

A bad value is an error at start.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from csp.constants import NONE, SELF
from environs import EnvError, FileAwareEnv, ValidationError, validate
from redis.connection import parse_url

from tuning.engines.wire.tracker import Address
from tuning.host import valkey
from tuning.host.private import keep_private, kept_secret
from tuning.validation import MACHINE_NAME, NO_MACHINE_NAME, is_confidential

BASE_DIR = Path(__file__).resolve().parent.parent


class _Env(FileAwareEnv):
    """Reads the file that `NAME_FILE` names, if there is this variable: secrets of Docker and systemd are files."""

    def _get_value(self, env_key: str, default: Any) -> Any:
        try:
            return super()._get_value(env_key, default)
        except (OSError, ValueError) as error:
            path = os.environ.get(f"{env_key}_FILE")
            raise EnvError(f'Environment variable "{env_key}_FILE": {path} can\'t be read as text') from error


env = _Env(strip_whitespace=True)


def _some(pattern: str, example: str) -> Callable[[list[str]], None]:
    """A check that a list isn't empty and every entry matches the pattern."""
    entry = validate.Regexp(pattern, error=f"{{input!r}}: write it like {example}")

    def check(values: list[str]) -> None:
        for value in values or [""]:
            entry(value)

    return check


def _wrong(variable: str, why: str) -> EnvError:
    return EnvError(f'Environment variable "{variable}" invalid: {why}')


def _trackers() -> dict[str, Address]:
    """The trackers' addresses by name. Raises `EnvError`."""
    entries: list[str] = env.list("TUNEBOARD_TRACKERS", [])
    found: dict[str, Address] = {}
    for entry in entries:
        match = re.fullmatch(r"([a-z0-9][a-z0-9-]{0,19})=(?:\[([0-9a-fA-F:]+)\]|([^\s:=/]+)):(\d{1,5})", entry.strip())
        if not match or not 0 < int(match[4]) < 65536:
            raise EnvError(
                f'Environment variable "TUNEBOARD_TRACKERS" invalid: {entry!r}: write it like lab=10.0.0.5:9190'
            )
        if match[1] in found:
            raise EnvError(f'Environment variable "TUNEBOARD_TRACKERS" invalid: there are two trackers {match[1]!r}')
        found[match[1]] = Address(match[2] or match[3], int(match[4]))
    return found


def _legacy_python() -> dict[str, Path]:
    """The interpreters with an older TVM by name. Raises `EnvError`."""
    entries: list[str] = env.list("TUNEBOARD_LEGACY_PYTHON", [])
    found: dict[str, Path] = {}
    for entry in entries:
        match = re.fullmatch(r"([a-z0-9][a-z0-9.-]{0,19})=(/\S.*)", entry.strip())
        if not match:
            raise _wrong("TUNEBOARD_LEGACY_PYTHON", f"{entry!r}: write it like tvm0.9=/opt/tvm0.9/bin/python")
        name, path = match[1], Path(match[2])
        if name in found:
            raise _wrong("TUNEBOARD_LEGACY_PYTHON", f"there are two interpreters {name!r}")
        _startable("TUNEBOARD_LEGACY_PYTHON", path)
        found[name] = path
    return found


def _torch_python() -> Path | None:
    """The interpreter with PyTorch. Raises `EnvError`."""
    entry: str = env.str("TUNEBOARD_TORCH_PYTHON", "")
    if not entry:
        return None
    if not entry.startswith("/"):
        raise _wrong("TUNEBOARD_TORCH_PYTHON", f"{entry!r}: write it like /opt/torch/bin/python")
    _startable("TUNEBOARD_TORCH_PYTHON", Path(entry))
    return Path(entry)


def _startable(variable: str, path: Path) -> None:
    if not path.is_file() or not os.access(path, os.X_OK):
        raise _wrong(variable, f"{path} isn't a program that can be started")


def _absolute(values: list[str]) -> None:
    """Check that each value is an absolute path."""
    for value in values:
        if not Path(value).is_absolute():
            raise ValidationError(f"{value!r}: write an absolute path, like /home/ada/logs")


def _zone() -> ZoneInfo:
    """The time zone of schedules. Raises `EnvError` if there is none of that name."""
    name: str = env.str("TUNEBOARD_TIME_ZONE", "UTC")
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:  # An unknown name, that of a folder of zones, and none at all.
        raise _wrong("TUNEBOARD_TIME_ZONE", f"there is no time zone {name!r}; write it like Europe/Berlin") from error


def _machine() -> str:
    """This machine's name; by default its host name, without what a name can't have."""
    own = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("-._")[:63]
    name: str = env.str(
        "TUNEBOARD_MACHINE",
        own or "machine",
        validate=validate.Regexp(f"{MACHINE_NAME}$", error=NO_MACHINE_NAME),
    )
    return name


def _redis_url(value: str) -> None:
    try:
        parse_url(value)  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise ValidationError(str(error)) from error


def _var() -> Path:
    """The data folder, created if missing and closed to other users. Raises `EnvError` if it isn't writable."""
    folder = Path(env.str("TUNEBOARD_VAR", str(BASE_DIR / "var"), validate=validate.Length(min=1))).resolve()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        keep_private(folder)
    except OSError as error:
        raise EnvError(f'Environment variable "TUNEBOARD_VAR": {folder} can\'t be written: {error.strerror}') from error
    return folder


VAR: Path = _var()
"""Everything Tuneboard writes: the SQLite database, the runs' work directories, logs, secrets."""

DEVICES: list[str] = env.list("TUNEBOARD_DEVICES", ["cpu"], validate=_some(r"(cpu|cuda:\d+)$", "cpu or cuda:0"))
"""What this machine's workers tune on, one run at a time on each device."""

MACHINE: str = _machine()
"""What this machine is called."""

UPLOAD_MB: int = env.int("TUNEBOARD_UPLOAD_MB", 512, validate=validate.Range(min=1, max=2047))
"""Maximum size of an uploaded model in MiB. Protobuf's own limit is 2 GiB."""
INSPECT_MEMORY_MB: int = env.int("TUNEBOARD_INSPECT_MEMORY_MB", 4096, validate=validate.Range(min=1024))
"""MiB of address space for reading an uploaded model, extracting its tasks, or showing a record."""
INSPECT_S: int = env.int("TUNEBOARD_INSPECT_S", 180, validate=validate.Range(min=10, max=3600))
"""Time limit for the same, in seconds, both elapsed and CPU time."""

INSPECTIONS: int = env.int("TUNEBOARD_INSPECTIONS", 4, validate=validate.Range(min=1, max=1000))
"""Processes at once, for users who wait, that read models, resolve targets or apply schedules."""
INSPECTIONS_PER_USER: int = env.int("TUNEBOARD_INSPECTIONS_PER_USER", 2, validate=validate.Range(min=1, max=1000))
UPLOADS: int = env.int("TUNEBOARD_UPLOADS", 4, validate=validate.Range(min=1, max=1000))
"""Uploads at once, from the first byte of their body to the answer."""
UPLOADS_PER_USER: int = env.int("TUNEBOARD_UPLOADS_PER_USER", 2, validate=validate.Range(min=1, max=1000))
IMPORT_UNPACKED_GB: float = env.float("TUNEBOARD_IMPORT_UNPACKED_GB", 16.0, validate=validate.Range(min=0.001))
"""GiB that imported log files may have, unpacked."""
IMPORT_LINES: int = env.int("TUNEBOARD_IMPORT_LINES", 10_000_000, validate=validate.Range(min=1, max=2**31 - 1))
"""Lines that the logs of one import may have."""
IMPORT_CPU_S: int = env.int("TUNEBOARD_IMPORT_CPU_S", 120, validate=validate.Range(min=1, max=1_000_000))
"""CPU time of the worker for one import, and once more for every 16 MiB of its files."""
IMPORTS_PER_USER: int = env.int("TUNEBOARD_IMPORTS_PER_USER", 4, validate=validate.Range(min=1, max=1000))
"""Imports that one user may have queued or running."""
STREAMS_PER_USER: int = env.int("TUNEBOARD_STREAMS_PER_USER", 50, validate=validate.Range(min=1, max=100_000))
"""Runs of one user that scripts may be sending to."""
SOCKETS: int = env.int("TUNEBOARD_SOCKETS", 2000, validate=validate.Range(min=1, max=100_000))
"""Live pages at once of each web process."""
SOCKETS_PER_USER: int = env.int("TUNEBOARD_SOCKETS_PER_USER", 100, validate=validate.Range(min=1, max=100_000))

COMPILE_MEMORY_MB: int = env.int("TUNEBOARD_COMPILE_MEMORY_MB", 8192, validate=validate.Range(min=1024))
"""MiB of address space for building a library, and for proving it unless that needs a GPU."""
COMPILE_S: int = env.int("TUNEBOARD_COMPILE_S", 1800, validate=validate.Range(min=10, max=86400))
"""Time limit in seconds for building, and for proving."""
BENCHMARK_S: float = env.float("TUNEBOARD_BENCHMARK_S", 60.0, validate=validate.Range(min=1, max=3600))
"""Seconds of measuring in a benchmark."""

KEEP_DELETED_DAYS: float = env.float("TUNEBOARD_KEEP_DELETED_DAYS", 7.0, validate=validate.Range(min=0, max=3650))
"""Days for which a deleted run can be restored before it is removed for good, with its folder."""

SCHEDULE_ZONE: ZoneInfo = _zone()
"""What the times of day of regression checks are in. Pages show other times as their readers prefer."""

WATCH_FOLDERS: list[str] = env.list("TUNEBOARD_WATCH_FOLDERS", [], validate=_absolute)
"""Folders of whose record files users may have workers follow; none for none."""
WATCHES: int = env.int("TUNEBOARD_WATCHES", 8, validate=validate.Range(min=1, max=100))
"""How many files this machine's worker follows at once."""
WATCHES_PER_USER: int = env.int("TUNEBOARD_WATCHES_PER_USER", 4, validate=validate.Range(min=1, max=100_000))
"""Files of one user that workers may follow, or that wait for it."""

AUDIT_DAYS: int = env.int("TUNEBOARD_AUDIT_DAYS", 365, validate=validate.Range(min=0, max=36_500))
"""Days for which entries of the audit log are kept; 0 for ever."""

ROOFLINE: bool = env.bool("TUNEBOARD_ROOFLINE", True)
"""Whether runs first measure what this machine does at best, if that isn't known."""
TRACKERS: dict[str, Address] = _trackers()
"""The TVM RPC trackers whose devices may be measured on. No other address is ever connected to."""
DEVICE_PATIENCE_S: float = env.float("TUNEBOARD_DEVICE_PATIENCE", 60.0, validate=validate.Range(min=1))
"""Seconds without any device after which a run on remote devices ends."""
REMOTE_RUNS: int = env.int("TUNEBOARD_REMOTE_RUNS", 2, validate=validate.Range(min=1, max=64))
"""How many runs on remote devices this machine's worker tunes at once: they share its cores for search and builds."""

LEGACY_PYTHON: dict[str, Path] = _legacy_python()
"""The interpreters that run auto_scheduler and AutoTVM, by name: TVM has dropped both."""
TORCH_PYTHON: Path | None = _torch_python()
"""The interpreter that converts programs of `torch.export`; None for none."""


def _webhooks(values: list[str]) -> None:
    """Check that each value is an HTTP(S) URL."""
    for value in values:
        if not re.fullmatch(r"https?://[^\s/]\S*", value.strip()):
            raise ValidationError(f"{value!r}: write it like https://chat.example/hooks/tune")


def _webhook_secret(value: str) -> None:
    """Check that the secret has the form that Standard Webhooks prescribes."""
    try:
        length = len(base64.b64decode(value.removeprefix("whsec_"), validate=True))
    except ValueError:
        length = 0
    if value and not 24 <= length <= 64:
        raise ValidationError("must be 24 to 64 random bytes in base64, as `openssl rand -base64 32` prints them")


_addresses: list[str] = env.list("TUNEBOARD_WEBHOOKS", [], validate=_webhooks)
WEBHOOKS: list[str] = [address.strip() for address in _addresses]
"""URLs to notify when a run or compilation ends."""
WEBHOOK_SECRET: str = env.str("TUNEBOARD_WEBHOOK_SECRET", "", validate=_webhook_secret)
"""Key for signing these notifications."""
SITE_URL: str = env.str(
    "TUNEBOARD_URL", "", validate=validate.Regexp(r"$|https?://[^\s/]\S*$", error="write it like https://tune.example")
).rstrip("/")
"""The site's public URL, for links in notifications; empty if unknown."""


def _networks(variable: str, values: list[str]) -> list[IPv4Network | IPv6Network]:
    """The networks that a variable's addresses and networks name. Raises `EnvError`."""
    found = []
    for value in values:
        try:
            network = ip_network(value.strip())
        except ValueError as error:
            raise EnvError(
                f'Environment variable "{variable}" invalid: {error}: write it like 10.0.0.5 or 10.0.0.0/24'
            ) from error
        if network.prefixlen == 0:
            raise EnvError(f'Environment variable "{variable}" invalid: {network} is everybody: name your own networks')
        found.append(network)
    return found


METRICS_FROM: list[IPv4Network | IPv6Network] = _networks(
    "TUNEBOARD_METRICS_FROM", env.list("TUNEBOARD_METRICS_FROM", [])
)
"""Who may read /metrics without a token."""

SECRET_KEY: str = env.str("SECRET_KEY", None) or kept_secret(VAR / "secret_key")
DEBUG: bool = env.bool("DEBUG", False)
ALLOWED_HOSTS: list[str] = env.list(
    "ALLOWED_HOSTS",
    ["localhost", "127.0.0.1", "[::1]"],
    validate=_some(r"[^\s/:]+$|\[[^\s/]+\]$", "tune.example, without scheme or port"),
)
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CSRF_TRUSTED_ORIGINS", [])
HTTPS: bool = env.bool("TUNEBOARD_HTTPS", False)
"""A proxy in front of the site terminates HTTPS: cookies are secure, and its X-Forwarded-Proto header is trusted."""

PROXIES: list[str] = [str(network) for network in _networks("TUNEBOARD_PROXIES", env.list("TUNEBOARD_PROXIES", []))]
"""The proxies in front of the site, by address or network: they alone are believed who the client is, and its scheme."""
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
if HTTPS and not PROXIES:  # With proxies, `dashboard.asgi` sets the scheme.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# HSTS and the redirect to HTTPS are up to that proxy, which knows what else its domain serves.
# The sign-in view answers those who are locked out, without axes' middleware.
SILENCED_SYSTEM_CHECKS = ["security.W004", "security.W008", "axes.W002"]
SESSION_ENGINE = "dashboard.people.sessions"
SESSION_COOKIE_NAME = "tuneboard_session"
CSRF_COOKIE_NAME = "tuneboard_csrf"


def _broker() -> str:
    """With TLS the server's certificate is checked, unless the URL says otherwise: not all of the libraries do so by themselves."""
    url: str = env.str("REDIS_URL", valkey.url(VAR), validate=_redis_url)
    if not url.startswith("rediss:") or "ssl_cert_reqs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required"


REDIS_URL: str = _broker()
"""The broker and channel layer; by default the embedded Valkey that `up` starts."""

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "csp",
    "channels",
    "django_htmx",
    "sesame",
    "axes",
    "tuning",
    "dashboard",
    # The benchmark commands. The Docker image contains no tests.
    *(["tests.benchmarks"] if (BASE_DIR / "tests" / "benchmarks").is_dir() else []),
]

MIDDLEWARE = [
    "dashboard.http.middleware.ApiErrors",
    "dashboard.http.middleware.CompressedJson",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dashboard.http.middleware.Private",
    "dashboard.http.middleware.Sessions",
    "django.middleware.common.CommonMiddleware",
    "dashboard.http.middleware.BodyLimit",
    "dashboard.metrics.web.RouteName",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "dashboard.http.auditing.Audited",
    "dashboard.http.middleware.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.http.middleware.ComeBackLater",
    "dashboard.http.middleware.in_one_thread",
]

ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]


CONNECTION_TIMEOUT_S = 3.0
"""How long a request waits for a connection: for a free one, or for a server that restarts."""


NOTICED = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""libpq's options by which the loss of the network is noticed within 15 s, before a run's lease ends. The URL's own go before them."""


def _database() -> dict[str, Any]:
    """The database: SQLite tuned for several writing processes, or PostgreSQL, pooled if TUNEBOARD_CONNECTIONS says so."""
    config: dict[str, Any] = dict(env.dj_db_url("DATABASE_URL", f"sqlite:///{VAR / 'tuneboard.sqlite3'}"))
    connections = env.int("TUNEBOARD_CONNECTIONS", 0, validate=validate.Range(min=0, max=1000))
    if config["ENGINE"] == "django.db.backends.sqlite3":
        config["OPTIONS"] = {
            # Wait for the write lock at BEGIN. A transaction that starts by reading would fail instead.
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        }
    else:
        config["CONN_HEALTH_CHECKS"] = True
        config["OPTIONS"] = {**NOTICED, **config.get("OPTIONS", {})}
        if connections:
            config["ENGINE"] = "dashboard.database"
            config["POOL"] = {"size": connections, "timeout_s": CONNECTION_TIMEOUT_S}
    return config


def _storage(value: str) -> None:
    """Check that the value names a store."""
    if not re.fullmatch(
        r"files|database|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9][A-Za-z0-9._/-]{0,199})?/?", value
    ):
        raise ValidationError(f"{value!r}: write files, database, or s3://BUCKET/PREFIX")


# Django prefers psycopg 3 wherever it is installed: in an environment of an earlier version, or the user's own.
sys.modules["psycopg"] = None  # type: ignore[assignment]
DATABASES = {"default": _database()}

STORAGE: str = env.str(
    "TUNEBOARD_STORAGE",
    "files" if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3" else "database",
    validate=_storage,
).rstrip("/")
"""Where files are that must not be lost: in TUNEBOARD_VAR, in the database, or in an object store."""

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL]},
    }
}

CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Retry forever: a worker that gave up would end the run it is tuning.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]

_ROLES = ("viewer", "operator", "admin")
"""As in `dashboard.accounts`, which can't be imported yet."""


def _issuer() -> str:
    """The provider's URL, exactly as it writes it itself; empty without single sign-on. Raises `EnvError`."""
    issuer: str = env.str("TUNEBOARD_OIDC_ISSUER", "").strip()
    if not issuer:
        given = [name for name in os.environ if name.startswith("TUNEBOARD_OIDC_") and os.environ[name]]
        if given:
            raise _wrong("TUNEBOARD_OIDC_ISSUER", f"must be set, since {min(given)} is")
        return ""
    if not is_confidential(issuer):
        raise _wrong(
            "TUNEBOARD_OIDC_ISSUER", "must begin with https://, or with http:// if the provider is on this machine"
        )
    if "?" in issuer or "#" in issuer:
        raise _wrong("TUNEBOARD_OIDC_ISSUER", "must have neither ? nor #")
    if issuer.rstrip("/").endswith("/.well-known/openid-configuration"):
        raise _wrong("TUNEBOARD_OIDC_ISSUER", "leave /.well-known/openid-configuration out")
    return issuer


def _role_values() -> dict[str, str]:
    """The role that each value of the claim gives; `*` stands for everybody. Raises `EnvError`."""
    entries: list[str] = env.list("TUNEBOARD_OIDC_ROLES", [])
    found: dict[str, str] = {}
    for entry in entries:
        value, _, role = (part.strip() for part in entry.rpartition("="))
        if not value:
            raise _wrong("TUNEBOARD_OIDC_ROLES", f"{entry!r}: write it like ml-team=operator")
        if role not in _ROLES:
            raise _wrong("TUNEBOARD_OIDC_ROLES", f"{entry!r}: there is no role {role!r}; known: {', '.join(_ROLES)}")
        if found.setdefault(value, role) != role:
            raise _wrong("TUNEBOARD_OIDC_ROLES", f"{value!r} is there with two roles")
    if OIDC_ISSUER and not found:
        raise _wrong(
            "TUNEBOARD_OIDC_ROLES", "must say who gets which role, such as tuneboard-admins=admin,ml-team=operator"
        )
    if found.keys() - {"*"} and not OIDC_ROLE_CLAIM:
        raise _wrong(
            "TUNEBOARD_OIDC_ROLE_CLAIM",
            "must name the claim that TUNEBOARD_OIDC_ROLES is about, such as realm_access.roles",
        )
    return found


def _admitted() -> list[tuple[str, str]]:
    """Claims and values of which everybody needs one; `email` with `@domain` means an address in it. Raises `EnvError`."""
    entries: list[str] = env.list("TUNEBOARD_OIDC_ADMIT", [])
    found: list[tuple[str, str]] = []
    for entry in map(str.strip, entries):
        claim, equals, value = (part.strip() for part in entry.partition("="))
        if entry == "*":
            found.append(("*", "*"))
        elif entry.startswith("@") and len(entry) > 1 and "=" not in entry:
            found.append(("email", entry.lower()))
        elif claim and equals and value and not value.startswith("@"):
            found.append((claim, value))
        else:
            raise _wrong("TUNEBOARD_OIDC_ADMIT", f"{entry!r}: write it like hd=tune.example, @tune.example or *")
    if "*" in OIDC_ROLES and not found:
        raise _wrong(
            "TUNEBOARD_OIDC_ADMIT",
            "TUNEBOARD_OIDC_ROLES gives everybody a role, so say who that is: hd=tune.example, or * for everybody",
        )
    return found


OIDC_ISSUER: str = _issuer()
"""The OpenID provider that people sign in with; empty for none."""
OIDC_NAME: str = env.str("TUNEBOARD_OIDC_NAME", "").strip() or "single sign-on"
"""What people call the provider."""
OIDC_ROLE_CLAIM: str = env.str("TUNEBOARD_OIDC_ROLE_CLAIM", "").strip()
"""The claim that roles come from; dots lead into objects."""
OIDC_ROLES: dict[str, str] = _role_values()
OIDC_ADMIT: list[tuple[str, str]] = _admitted()
OIDC_SESSION_HOURS: float = env.float("TUNEBOARD_OIDC_SESSION_HOURS", 12.0, validate=validate.Range(min=0.1, max=336))
"""Hours after which whoever signed in with the provider is asked to do so again, so that it learns of changes there."""
# What follows has the names that mozilla-django-oidc gives it.
OIDC_RP_CLIENT_ID: str = env.str("TUNEBOARD_OIDC_CLIENT_ID", "").strip()
if OIDC_ISSUER and not OIDC_RP_CLIENT_ID:
    raise _wrong("TUNEBOARD_OIDC_CLIENT_ID", "must be set with TUNEBOARD_OIDC_ISSUER")
OIDC_RP_CLIENT_SECRET: str = env.str("TUNEBOARD_OIDC_CLIENT_SECRET", "")
if OIDC_ISSUER and not OIDC_RP_CLIENT_SECRET:
    raise _wrong("TUNEBOARD_OIDC_CLIENT_SECRET", "must be set with TUNEBOARD_OIDC_ISSUER")
OIDC_RP_SCOPES: str = " ".join(env.str("TUNEBOARD_OIDC_SCOPES", "openid profile email").replace(",", " ").split())
if "openid" not in OIDC_RP_SCOPES.split():
    raise _wrong("TUNEBOARD_OIDC_SCOPES", "must contain openid")
OIDC_USE_PKCE = True
OIDC_MAX_STATES = 5
"""Sign-ins of one browser at the same time; they must fit into a cookie."""
OIDC_TIMEOUT = (3.05, 5)
"""Seconds for connecting to the provider, and for each of its answers."""
OIDC_AUTHENTICATION_CALLBACK_URL = "oidc_callback"

PASSWORD_SIGN_IN: bool = env.bool("TUNEBOARD_PASSWORD_SIGN_IN", True)
"""Whether people may sign in by password."""
if not PASSWORD_SIGN_IN and not OIDC_ISSUER:
    raise _wrong("TUNEBOARD_PASSWORD_SIGN_IN", "nobody could sign in: set TUNEBOARD_OIDC_ISSUER, or allow passwords")

AUTHENTICATION_BACKENDS = [
    "dashboard.people.limits.PasswordLimits",
    "dashboard.people.backends.Roles",
    "dashboard.people.backends.LoginUrls",
    *(["dashboard.people.single_sign_on.SingleSignOn"] if OIDC_ISSUER else []),
]
"""The limits must be first, and Roles the first that grants permissions: what they refuse, others aren't asked."""

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    *(
        {"NAME": f"django.contrib.auth.password_validation.{name}"}
        for name in ("CommonPasswordValidator", "NumericPasswordValidator", "UserAttributeSimilarityValidator")
    ),
]
CSRF_FAILURE_VIEW = "dashboard.views.errors.csrf_failure"
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "run_list"
LOGOUT_REDIRECT_URL = "sign_in"
SESAME_ONE_TIME = True
SESAME_MAX_AGE: int = env.int("TUNEBOARD_LOGIN_URL_AGE", 3600, validate=validate.Range(min=60))
"""Seconds for which an unused login URL is valid."""

SIGN_IN_ATTEMPTS: int = env.int("TUNEBOARD_SIGN_IN_ATTEMPTS", 5, validate=validate.Range(min=1, max=1000))
"""Wrong passwords for one name from one address, after which that name is locked for that address."""
SIGN_IN_ADDRESS_ATTEMPTS: int = env.int("TUNEBOARD_SIGN_IN_ADDRESS_ATTEMPTS", 50, validate=validate.Range(min=1))
"""Wrong passwords from one address, after which every name is locked for it. People behind one router share an address."""
SIGN_IN_LOCK_MINUTES: int = env.int("TUNEBOARD_SIGN_IN_LOCK_MINUTES", 15, validate=validate.Range(min=1, max=1440))
"""How long a lock lasts after the last attempt."""
KEEP_ATTEMPTS_DAYS: int = env.int("TUNEBOARD_KEEP_ATTEMPTS_DAYS", 30, validate=validate.Range(min=1, max=3650))
"""Days for which wrong passwords are recorded, with name and address."""
AXES_HANDLER = "dashboard.people.limits.Attempts"
AXES_CLIENT_IP_CALLABLE = "dashboard.people.limits.counted_as"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address"]
AXES_FAILURE_LIMIT = SIGN_IN_ATTEMPTS
AXES_COOLOFF_TIME = timedelta(minutes=SIGN_IN_LOCK_MINUTES)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_ENABLE_ACCESS_FAILURE_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "csrfmiddlewaretoken", "next", "sesame"]
"""What axes doesn't copy from a request, besides the password. It copies all else."""

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
FILE_UPLOAD_TEMP_DIR = VAR
"""Not /tmp, which may be small or in memory."""
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FILES = 2000
"""Maximum bytes of a request body; larger ones get a 413 without being read."""

STATIC_URL = "static/"
STATIC_ROOT = VAR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "dashboard.assets.finders.PlotlyFinder",
    "dashboard.assets.finders.NinjaFinder",
]
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    # Records, consoles, models, libraries, uploads.
    "store": {"BACKEND": "tuning.storage.local.LocalStore"}
    if STORAGE == "files"
    else {
        "BACKEND": "tuning.storage.shared.SharedStore",
        "OPTIONS": {"place": STORAGE if STORAGE.startswith("s3://") else ""},
    },
    # File names contain a hash of the content, so that browsers can cache them forever.
    "staticfiles": {"BACKEND": "dashboard.assets.storage.HashedModules"},
}

LANGUAGE_CODE = "en-us"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "dashboard.http.logs.Plain",
            "fmt": "{asctime} {levelname} {name}: {message}",
            "style": "{",
        }
    },
    "filters": {
        "outages": {"()": "dashboard.http.logs.OneLine"},
        "queries": {"()": "dashboard.http.logs.NoQueries"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["outages", "queries"]}},
    "root": {"handlers": ["console"], "level": env.log_level("LOG_LEVEL", logging.INFO)},
    "loggers": {
        "django.request": {"level": "ERROR"},
        # Scanners try any Host. They get a 400, which needs no traceback.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}

env.seal()

"""Tuneboard's settings, ignoring the environment: no test touches a real database or broker.

`manage.py test` names the PostgreSQL server of its second round in TUNEBOARD_TEST_DATABASE_URL.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

VAR_OF_TESTS = Path(tempfile.mkdtemp(prefix="tuneboard-test-"))
atexit.register(shutil.rmtree, VAR_OF_TESTS, ignore_errors=True)

for name in (
    "ALLOWED_HOSTS",
    "CSRF_TRUSTED_ORIGINS",
    "DATABASE_URL",
    "DEBUG",
    "REDIS_URL",
    "SECRET_KEY",
    "TUNEBOARD_DEVICES",
    "TUNEBOARD_DEVICE_PATIENCE",
    "TUNEBOARD_HTTPS",
    "TUNEBOARD_AUDIT_DAYS",
    "TUNEBOARD_COMPILE_MEMORY_MB",
    "TUNEBOARD_COMPILE_S",
    "TUNEBOARD_BENCHMARK_S",
    "TUNEBOARD_CONNECTIONS",
    "TUNEBOARD_INSPECT_MEMORY_MB",
    "TUNEBOARD_INSPECT_S",
    "TUNEBOARD_INSPECTIONS",
    "TUNEBOARD_INSPECTIONS_PER_USER",
    "TUNEBOARD_KEEP_DELETED_DAYS",
    "TUNEBOARD_KEEP_ATTEMPTS_DAYS",
    "TUNEBOARD_LEGACY_PYTHON",
    "TUNEBOARD_LOGIN_URL_AGE",
    "TUNEBOARD_MACHINE",
    "TUNEBOARD_METRICS_FROM",
    "TUNEBOARD_OIDC_ADMIT",
    "TUNEBOARD_OIDC_CLIENT_ID",
    "TUNEBOARD_OIDC_CLIENT_SECRET",
    "TUNEBOARD_OIDC_ISSUER",
    "TUNEBOARD_OIDC_NAME",
    "TUNEBOARD_OIDC_ROLES",
    "TUNEBOARD_OIDC_ROLE_CLAIM",
    "TUNEBOARD_OIDC_SCOPES",
    "TUNEBOARD_OIDC_SESSION_HOURS",
    "TUNEBOARD_PASSWORD_SIGN_IN",
    "TUNEBOARD_PROXIES",
    "TUNEBOARD_REMOTE_RUNS",
    "TUNEBOARD_ROOFLINE",
    "TUNEBOARD_SIGN_IN_ADDRESS_ATTEMPTS",
    "TUNEBOARD_SIGN_IN_ATTEMPTS",
    "TUNEBOARD_SIGN_IN_LOCK_MINUTES",
    "TUNEBOARD_SOCKETS",
    "TUNEBOARD_SOCKETS_PER_USER",
    "TUNEBOARD_TIME_ZONE",
    "TUNEBOARD_TORCH_PYTHON",
    "TUNEBOARD_TRACKERS",
    "TUNEBOARD_STREAMS_PER_USER",
    "TUNEBOARD_STORAGE",
    "TUNEBOARD_WATCHES",
    "TUNEBOARD_WATCHES_PER_USER",
    "TUNEBOARD_WATCH_FOLDERS",
    "TUNEBOARD_IMPORTS_PER_USER",
    "TUNEBOARD_IMPORT_CPU_S",
    "TUNEBOARD_IMPORT_LINES",
    "TUNEBOARD_IMPORT_UNPACKED_GB",
    "TUNEBOARD_UPLOADS",
    "TUNEBOARD_UPLOADS_PER_USER",
    "TUNEBOARD_UPLOAD_MB",
    "TUNEBOARD_URL",
    "TUNEBOARD_WEBHOOKS",
    "TUNEBOARD_WEBHOOK_SECRET",
):
    os.environ.pop(name, None)
    os.environ.pop(f"{name}_FILE", None)
# Threads that are bound to a core wait for seconds while another test needs it: see `tuning.engines.proof.threads`.
os.environ["TVM_BIND_THREADS"] = "0"
os.environ["TUNEBOARD_ROOFLINE"] = "false"  # It would take each run of a new database seconds.
os.environ["TUNEBOARD_VAR"] = str(VAR_OF_TESTS)
if url := os.environ.get("TUNEBOARD_TEST_DATABASE_URL"):
    os.environ["DATABASE_URL"] = url
os.environ["TUNEBOARD_STORAGE"] = "files"  # Tests of other stores choose one, with either database.

from dashboard.settings import *  # noqa: E402, F403
from dashboard.settings import DATABASES, STATIC_ROOT, STORAGES  # noqa: E402

IS_SQLITE = DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3"
# A file rather than memory: threads and other processes must see what a test writes.
DATABASES["default"]["TEST"] = {"NAME": str(VAR_OF_TESTS / "test.sqlite3") if IS_SQLITE else "test_tuneboard"}

# Only tests of the whole site run collectstatic, which writes the manifest.
STORAGES = STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns when there is none
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

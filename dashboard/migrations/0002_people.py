"""Names, scopes and expiry for tokens; sessions that know their user; when people were last seen."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.db import migrations, models
from django.utils import timezone

BACKENDS = {
    "django.contrib.auth.backends.ModelBackend": "dashboard.people.backends.Roles",
    "sesame.backends.ModelBackend": "dashboard.people.backends.LoginUrls",
}


def keep_sessions(apps: Any, _editor: Any) -> None:
    """Move the sessions to their new table, so that nobody is signed out. Those that nobody is signed in to are dropped."""
    old, new = apps.get_model("sessions", "Session"), apps.get_model("dashboard", "Session")
    users = set(apps.get_model("auth", "User").objects.values_list("pk", flat=True))
    for session in old.objects.filter(expire_date__gt=timezone.now()):
        data = SessionStore().decode(session.session_data)
        user = data.get("_auth_user_id", "")
        if not user.isdecimal() or int(user) not in users:
            continue
        data["_auth_user_backend"] = BACKENDS.get(data["_auth_user_backend"])
        new.objects.create(
            session_key=session.session_key,
            session_data=SessionStore().encode(data),
            expire_date=session.expire_date,
            user_id=int(user),
        )
    old.objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0001_api_token"),
        ("sessions", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="expires_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="name",
            field=models.CharField(default="unnamed", max_length=100),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="scope",
            field=models.CharField(
                choices=[
                    ("read", "look only"),
                    ("launch", "look, launch and compile"),
                    ("admin", "all that your role allows"),
                ],
                default="admin",
                max_length=10,
            ),
        ),
        migrations.CreateModel(
            name="Person",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("seen_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "session_key",
                    models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name="session key"),
                ),
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="kept_sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "session",
                "verbose_name_plural": "sessions",
                "abstract": False,
            },
        ),
        migrations.RunPython(keep_sessions, migrations.RunPython.noop),
    ]

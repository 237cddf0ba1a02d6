"""The session engine: Django's sessions in the database, each with its user's id, so that all of one user can be ended."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db import transaction

from dashboard.models import Session
from tuning.notify.announce import announce_sign_out


class SessionStore(DatabaseStore):
    """Must keep this name: Django signs sessions with it, so others couldn't be read."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        """The row, with the user who is signed in."""
        session = super().create_model_instance(data)
        assert isinstance(session, Session)
        session.user_id = data.get(SESSION_KEY)
        return session


def end_sessions(user: User, keep: str | None = None) -> None:
    """Sign the user out everywhere, except in the session with the key `keep`; open pages learn it at once."""
    user.kept_sessions.exclude(pk=keep).delete()
    transaction.on_commit(partial(announce_sign_out, user.pk))

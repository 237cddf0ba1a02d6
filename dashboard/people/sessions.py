"""The session engine: Django's sessions in the database, by a digest of their keys, each with its user's id.

Whoever reads the database can't sign in with what it has. All sessions of one user can be ended.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db import transaction
from django.utils import timezone

from dashboard.models import Session, digest
from tuning.notify.announce import announce_sign_out


class SessionStore(DatabaseStore):
    """Must keep this name: Django signs sessions with it, so others couldn't be read."""

    # Those of the database's store look rows up by the key itself; these call the methods below in a thread.
    aload, aexists, acreate = SessionBase.aload, SessionBase.aexists, SessionBase.acreate
    asave, adelete = SessionBase.asave, SessionBase.adelete

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def load(self) -> dict[str, Any]:
        """Data of a session that hasn't expired; without one, the key is forgotten."""
        row = Session.objects.filter(pk=digest(self.session_key or ""), expire_date__gt=timezone.now()).first()
        if row is None:
            self._session_key = None
            return {}
        return self.decode(row.session_data)

    def exists(self, session_key: str) -> bool:
        return super().exists(digest(session_key))

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(digest(key))

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        """The row, with the user who is signed in."""
        session = super().create_model_instance(data)
        assert isinstance(session, Session)
        session.session_key = digest(session.session_key)
        session.user_id = data.get(SESSION_KEY)
        return session


def end_sessions(user: User, keep: str | None = None) -> None:
    """Sign the user out everywhere, except in the session with the key `keep`; open pages learn it at once."""
    user.kept_sessions.exclude(pk=digest(keep or "")).delete()
    transaction.on_commit(partial(announce_sign_out, user.pk))

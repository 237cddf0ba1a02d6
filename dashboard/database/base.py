"""The backend: Django expects it in a module called `base`."""

from __future__ import annotations

import os
from functools import partial
from math import ceil
from typing import Any

from django.db.backends.postgresql import base

from .pool import Pool


class DatabaseWrapper(base.DatabaseWrapper):
    """Takes its connections from a pool per process, made with the arguments in `POOL` of its settings.

    Django's own pool needs psycopg 3. Threads can't keep connections (`CONN_MAX_AGE`): under ASGI each request has a
    thread of its own.
    """

    _pools: dict[str, Pool] = {}
    _lender: Pool
    """The pool that `connection` goes back to: another may have taken its place since."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        self._lender = self._pools.get(self.alias) or self._pools.setdefault(
            self.alias, Pool(**self.settings_dict["POOL"])
        )
        # Otherwise a host that drops packets would hold the request for minutes.
        conn_params.setdefault("connect_timeout", ceil(self._lender.timeout_s))
        return self._lender.take(partial(super().get_new_connection, conn_params))

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            self._lender.give_back(connection)

    def close_pool(self) -> None:
        if pool := self._pools.pop(self.alias, None):
            pool.close()


# A forked process must not use the connections of its parent.
os.register_at_fork(after_in_child=DatabaseWrapper._pools.clear)  # noqa: SLF001

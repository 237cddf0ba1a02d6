"""Whether the site on a port of this machine is healthy: `python -m dashboard.healthy PORT` exits with 0 or 1.

For health checks of containers. It uses the standard library only, since it runs every few seconds beside measurements.
"""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping

ANSWERS_IN_S = 5.0


def is_healthy(port: int, host: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWERS_IN_S)
    try:
        connection.request("GET", "/healthz", headers={"Host": host})
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def a_host(environ: Mapping[str, str]) -> str:
    """A host name that the site accepts."""
    first = environ.get("ALLOWED_HOSTS", "").split(",")[0].strip().removeprefix(".")
    return "localhost" if first in ("", "*") else first


if __name__ == "__main__":
    sys.exit(not is_healthy(int(sys.argv[1]), a_host(os.environ)))

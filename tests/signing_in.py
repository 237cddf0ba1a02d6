"""Signs in by a one-time login URL, as a browser does."""

from __future__ import annotations

import re
import urllib.request
from http.cookiejar import CookieJar
from urllib.parse import urlencode


def signed_in(login_url: str) -> CookieJar:
    """The cookies after opening the URL and confirming. Raises `urllib.error.HTTPError` if it is refused."""
    jar = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    with opener.open(login_url, timeout=60) as page:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.read().decode())
    assert token, "the page asks nothing"
    opener.open(login_url, urlencode({"csrfmiddlewaretoken": token[1]}).encode(), timeout=60).close()
    return jar

"""The ASGI application: pages and API over HTTP, live updates over WebSocket."""

from __future__ import annotations

import os
import warnings
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from channels.sessions import CookieMiddleware
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
# Each request has its own thread, and would open a new connection to PostgreSQL without a pool.
os.environ.setdefault("TUNEBOARD_CONNECTIONS", "40")
pages = get_asgi_application()
# Django warns that WhiteNoise's files are read at once, which is fine: large downloads stream (dashboard.http.downloads).
warnings.filterwarnings("ignore", "StreamingHttpResponse must consume synchronous iterators")

from dashboard.http import parameters  # noqa: E402, F401 - registers `number` and `name`
from dashboard.http.gate import BodyGate, SocketGate, behind_proxies  # noqa: E402
from dashboard.metrics.web import MeasuredRequests, MeasuredSockets  # noqa: E402

from .consumers import CompilationConsumer, RunConsumer  # noqa: E402  models can be imported only now

# Typed as Any since Django's types allow only views in routes.
run_socket: Any = RunConsumer.as_asgi()
compilation_socket: Any = CompilationConsumer.as_asgi()
no_such_socket: Any = WebsocketDenier.as_asgi()
sockets: list[Any] = [
    path("ws/runs/<number:pk>/", run_socket),
    path("ws/compilations/<number:pk>/", compilation_socket),
    re_path("", no_such_socket),
]

application = behind_proxies(
    ProtocolTypeRouter(
        {
            "http": MeasuredRequests(BodyGate(pages)),
            "websocket": MeasuredSockets(SocketGate(CookieMiddleware(URLRouter(sockets)))),
        }
    ),
    settings.PROXIES,
)

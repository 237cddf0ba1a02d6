"""The site as an ASGI application: pages and API over HTTP, live runs over WebSocket."""

from __future__ import annotations

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
pages = get_asgi_application()

from .consumers import RunConsumer  # noqa: E402  models can be imported only now
from .gate import BodyGate, SocketGate  # noqa: E402

sockets = [
    path("ws/runs/<int:pk>/", RunConsumer.as_asgi(), name="run_socket"),
    re_path("", WebsocketDenier.as_asgi()),
]

application = ProtocolTypeRouter(
    {"http": BodyGate(pages), "websocket": SocketGate(AuthMiddlewareStack(URLRouter(sockets)))}
)

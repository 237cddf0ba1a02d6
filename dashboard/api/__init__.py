"""The JSON API under `/api/v1/` (docs/api.md); its OpenAPI page is at `/api/v1/docs`."""

from __future__ import annotations

from http.client import responses
from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase
from ninja.openapi.schema import OpenAPISchema
from ninja.renderers import BaseRenderer

from dashboard.accounts import VIEW
from dashboard.http.errors import CODES

from . import audit, compare, compilations, downloads, library, machines, networks, people, projects
from .auth import needs
from .checking import regressions
from .errors import handle_errors
from .incoming import imports, streams
from .launching import launches, templates


class Json(BaseRenderer):
    """Encodes with msgspec, which is fast with the long columns of charts."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:  # noqa: ARG002
        return msgspec.json.encode(data)


class OwnPage(DocsBase):
    """The operations on a page of the site, by the Swagger UI that Ninja brings."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **where: Any) -> HttpResponse:
        return render(request, "api.html", {"api": api, "described": self.get_openapi_url(api, where)})


class Api(NinjaAPI):
    """Describes itself once: that takes long, and the description never changes."""

    _described: OpenAPISchema | None = None

    def get_openapi_schema(self, **where: Any) -> OpenAPISchema:
        self._described = self._described or _with_all_errors(super().get_openapi_schema(**where))
        return self._described


def _with_all_errors(described: OpenAPISchema) -> OpenAPISchema:
    """Each operation declares the status 400 alone: see `shapes.ERRORS`."""
    for operation in (one for path in described["paths"].values() for one in path.values()):
        answers = operation["responses"]
        answers.update({status: answers[400] | {"description": responses[status]} for status in CODES})
    return described


api = Api(
    docs=OwnPage(),
    title="Tuneboard",
    version="1",
    description="Launch, watch and read Apache TVM tuning runs. Latencies in seconds, times in ISO 8601.",
    urls_namespace="api",
    auth=needs(VIEW),
    renderer=Json(),
)
api.add_router("", networks.router)
api.add_router("", launches.router)
api.add_router("", templates.router)
api.add_router("", compare.router)
api.add_router("", downloads.router)
api.add_router("", imports.router)
api.add_router("", library.router)
api.add_router("", compilations.router)
api.add_router("", regressions.router)
api.add_router("", machines.router)
api.add_router("", audit.router)
api.add_router("", people.router)
api.add_router("", projects.router)
api.add_router("", streams.router)
handle_errors(api)

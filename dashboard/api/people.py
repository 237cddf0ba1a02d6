"""People, for admins, and tokens of one's own."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Router, Status
from ninja.errors import HttpError
from typing_extensions import TypedDict

from dashboard.accounts import MANAGE_PEOPLE, VIEW_PEOPLE, one_time_login_url
from dashboard.http.access import person
from dashboard.http.addresses import site_address
from dashboard.people import managing, tokens
from dashboard.people.backends import token_of
from dashboard.people.managing import PersonDict
from dashboard.people.tokens import NewTokenDict, TokenDict

from . import bodies
from .auth import needs
from .shapes import ERRORS

router = Router(tags=["people"])


class PersonList(TypedDict):
    """By name; those who are deactivated last."""

    items: list[PersonDict]


class LoginUrlDict(TypedDict):
    """`login_url` signs the person in once, and is never shown again."""

    person: PersonDict
    login_url: str
    expires_at: datetime


class TokenList(TypedDict):
    """Newest first."""

    items: list[TokenDict]


@router.get("people", response={200: PersonList, **ERRORS}, auth=needs(VIEW_PEOPLE))
def list_people(request: HttpRequest) -> PersonList:  # noqa: ARG001
    """Everybody who can sign in, or could."""
    return {"items": managing.people()}


@router.post(
    "people", response={201: LoginUrlDict, **ERRORS}, auth=needs(MANAGE_PEOPLE), openapi_extra=bodies.INVITATION
)
def invite_person(request: HttpRequest) -> Status[LoginUrlDict]:
    """Create a person without a password, and a login URL to send to them."""
    body = bodies.fields(request, "name", "role", "project")
    invited = managing.invite(body.get("name"), body.get("role"), body.get("project"))
    return Status(201, _login_url(request, invited))


@router.post("people/{number:person_id}/login-url", response={201: LoginUrlDict, **ERRORS}, auth=needs(MANAGE_PEOPLE))
def make_login_url(request: HttpRequest, person_id: int) -> Status[LoginUrlDict]:
    """Make a new login URL for a person."""
    user = _user(person_id)
    managing.check_may_sign_in(user)
    return Status(201, _login_url(request, user))


@router.patch(
    "people/{number:person_id}",
    response={200: PersonDict, **ERRORS},
    auth=needs(MANAGE_PEOPLE),
    openapi_extra=bodies.ROLE,
)
def change_role(request: HttpRequest, person_id: int) -> PersonDict:
    """Give a person another role in a project, or that of the site's admins."""
    user, body = _user(person_id), bodies.fields(request, "role", "project")
    managing.change_role(user, body.get("role"), body.get("project"), by=person(request))
    return managing.person(user)


@router.post("people/{number:person_id}/deactivate", response={200: PersonDict, **ERRORS}, auth=needs(MANAGE_PEOPLE))
def deactivate_person(request: HttpRequest, person_id: int) -> PersonDict:
    """End a person's sessions, sockets, tokens and login URLs at once. What they did stays."""
    user = _user(person_id)
    managing.deactivate(user, by=person(request))
    return managing.person(user)


@router.post("people/{number:person_id}/reactivate", response={200: PersonDict, **ERRORS}, auth=needs(MANAGE_PEOPLE))
def reactivate_person(request: HttpRequest, person_id: int) -> PersonDict:  # noqa: ARG001
    """Let a person sign in again. Tokens and sessions stay ended."""
    user = _user(person_id)
    managing.reactivate(user)
    return managing.person(user)


@router.get("tokens", response={200: TokenList, **ERRORS})
def list_tokens(request: HttpRequest) -> TokenList:
    """Your own tokens, without their texts; with a project's token, those for that project."""
    return {"items": [tokens.shown(token) for token in tokens.of(person(request))]}


@router.post("tokens", response={201: NewTokenDict, **ERRORS}, openapi_extra=bodies.TOKEN)
def create_token(request: HttpRequest) -> Status[NewTokenDict]:
    """Create a token of your own, in a session: a token can't make others."""
    user, body = _in_session(request), bodies.fields(request, *tokens.FIELDS)
    return Status(201, tokens.create(user, **{field: body.get(field) for field in tokens.FIELDS}))


@router.delete("tokens/{number:token_id}", response={204: None, **ERRORS})
def revoke_token(request: HttpRequest, token_id: int) -> Status[None]:
    """Revoke a token of your own, in a session. It is refused from now on."""
    tokens.revoke(get_object_or_404(_in_session(request).api_tokens, pk=token_id))
    return Status(204, None)


def _in_session(request: HttpRequest) -> User:
    """The user. Raises `HttpError` 403 if they came by a token: a leaked one could outlive itself through another."""
    if token_of(request.user):
        raise HttpError(403, "A token can't make or revoke tokens. Sign in, and use the page Your account.")
    return person(request)


def _user(person_id: int) -> User:
    return get_object_or_404(User, pk=person_id)


def _login_url(request: HttpRequest, user: User) -> LoginUrlDict:
    return {
        "person": managing.person(user),
        "login_url": one_time_login_url(user, site_address(request)),
        "expires_at": timezone.now() + timedelta(seconds=settings.SESAME_MAX_AGE),
    }

"""Decide who the members of a project are, and what each may do there."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from tuning import audit
from tuning.models import Membership, Project
from tuning.notify.announce import announce_sign_out
from tuning.validation import Conflict, Invalid, gather


def add(project: Project, name: Any, role: Any) -> Membership:
    """Make a person a member. Raises `Invalid` that names every field at fault."""
    wrong: dict[str, str] = {}
    gather(wrong, check_role, role)
    user = gather(wrong, _person, name)
    if wrong:
        raise Invalid(wrong)
    with audit.act("member.add", project, person=user.get_username(), role=role):
        made, new = Membership.objects.get_or_create(project=project, user=user, defaults={"role": role})
        if not new:
            raise Invalid({"name": f"{user} is already a member, with the role {made.role}."})
    return made


def change_role(member: Membership, role: Any) -> None:
    """Give a member another role, which holds at once. Raises `Invalid`, or `Conflict` if somebody has just removed the member."""
    check_role(role)
    with audit.act("member.role", member.project, person=str(member.user), role={"from": member.role, "to": role}):
        if not Membership.objects.filter(pk=member.pk).update(role=role):
            raise Conflict(f"{member.user} is no longer a member.")
        member.role = role
        transaction.on_commit(partial(announce_sign_out, member.user_id))


def remove(member: Membership) -> None:
    """End a membership at once: pages that the person has open on the project's runs are told. What they did stays.

    Raises `Conflict` if somebody has just done it.
    """
    with audit.act("member.remove", member.project, person=str(member.user), role=member.role):
        if not Membership.objects.filter(pk=member.pk).delete()[0]:
            raise Conflict(f"{member.user} is no longer a member.")
        transaction.on_commit(partial(announce_sign_out, member.user_id))


def check_role(role: Any) -> None:
    """Raises `Invalid` if this isn't a role in projects."""
    if not isinstance(role, str) or role not in Membership.Role.values:
        raise Invalid({"role": f"Must be one of {', '.join(Membership.Role.values)}."})


def _person(name: Any) -> User:
    text = name.strip() if isinstance(name, str) and name.isprintable() else ""
    if not text:
        raise Invalid({"name": "Enter the name of a person."})
    known = User.objects.filter(username=text).first()
    if known is None:
        raise Invalid({"name": "Nobody has this name. An admin of the site can invite people."})
    if not known.is_active:
        raise Invalid({"name": f"{known} is deactivated."})
    return known

"""Changing a password: the current one can be guessed as little as at sign-in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import authenticate
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from . import limits


def password_form(request: HttpRequest, user: User, data: Any = None) -> SetPasswordForm[User]:
    """For a new password; it asks for the current one if there is one."""
    how = {"label_suffix": "", "use_required_attribute": False}
    return Change(request, user, data, **how) if user.has_usable_password() else SetPasswordForm(user, data, **how)


class Change(PasswordChangeForm):
    """Counts a wrong current password like a failed sign-in: whoever finds a signed-in browser may try, too."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request

    def clean_old_password(self) -> str:
        """Raises `ValidationError` if it is wrong, or was guessed too often."""
        given: str = self.cleaned_data["old_password"]
        if authenticate(self.request, username=self.user.get_username(), password=given) is None:
            locked = limits.is_locked_out(self.request)
            raise ValidationError(limits.locked() if locked else self.error_messages["password_incorrect"])
        return given

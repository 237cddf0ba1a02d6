"""Signing in and out. There is no default password: the first sign-in is by the URL that `up` prints."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from sesame.views import LoginView as SesameLoginView

from dashboard.people import limits, single_sign_on
from tuning import audit
from tuning.audit import Thing


class PasswordLogin(LoginView):
    """Signs in by password. Whatever is wrong, the answer is the same, so nobody learns which accounts exist."""

    template_name = "sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        """What the page offers besides or instead of the password."""
        provider = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
        return super().get_context_data(**more) | {"provider": provider, "passwords": settings.PASSWORD_SIGN_IN}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Check the password, unless too many are being checked or there were too many wrong ones."""
        if not settings.PASSWORD_SIGN_IN:
            reason = "Signing in by password is turned off."
            audit.refuse("person.sign_in", Thing("person", None, request.POST.get("username", "")[:150]), reason)
            return self._refused(403, None, reason)
        with limits.password_check() as free:
            if not free:
                return self._refused(503, limits.BUSY_S, "Too many people are signing in. Try again in a few seconds.")
            answer: HttpResponse = super().post(request, *args, **kwargs)
        if not limits.is_locked_out(request):
            return answer
        return self._refused(429, settings.SIGN_IN_LOCK_MINUTES * 60, limits.locked())

    def _refused(self, status: int, wait_s: int | None, why: str) -> HttpResponse:
        """The page with an empty form."""
        context = self.get_context_data(form=self.get_form_class()(self.request), refusal=why)
        headers = {} if wait_s is None else {"Retry-After": str(wait_s)}
        return TemplateResponse(self.request, self.template_name, context, status=status, headers=headers)


sign_in = PasswordLogin.as_view()


class SignOut(LogoutView):
    """Ends the session, and leads on to the provider's own sign-out if it let the person in and has one.

    A page leads there rather than a redirect: browsers hold the redirects of a form to the Content-Security-Policy.
    """

    http_method_names = ["post"]

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        onward = ""
        if request.session.get(BACKEND_SESSION_KEY) == single_sign_on.BACKEND:
            onward = single_sign_on.sign_out_url(request.build_absolute_uri(reverse("sign_in")))
        answer: HttpResponse = super().post(request, *args, **kwargs)
        if not onward:
            return answer
        return render(request, "signed_out.html", {"provider": settings.OIDC_NAME, "onward": onward})


sign_out = login_not_required(SignOut.as_view())


@method_decorator([login_not_required, never_cache], name="dispatch")
class OneTimeLogin(SesameLoginView):  # type: ignore[misc]
    """Signs in by a URL that works once and expires.

    Opening the URL only asks: link previews would use it up, and another site could sign its visitors in as somebody else.
    """

    http_method_names = ("get", "post")

    def get(self, request: HttpRequest) -> HttpResponse:
        """Name the user and ask. Whoever is signed in goes on, even with a URL that was used."""
        if user := _owner(request):
            return render(request, "login_confirm.html", {"owner": user})
        return self.login_success() if request.user.is_authenticated else self.login_failed()

    def post(self, request: HttpRequest) -> HttpResponse:
        """Sign in, and redirect to `next` if that is on this site, otherwise to the runs."""
        with transaction.atomic():
            # If the sign-in can't be recorded, the URL isn't used up either.
            if not (user := _claimed(request)):
                return self.login_failed()
            login(request, user)
        redirection: HttpResponse = self.login_success()
        return redirection

    def login_failed(self) -> HttpResponse:
        return render(self.request, "login_refused.html", status=403)


def _owner(request: HttpRequest) -> User | None:
    """The user whose URL it is, if it still works."""
    from sesame.utils import get_user

    user: User | None = get_user(request, update_last_login=False)
    return user


def _claimed(request: HttpRequest) -> User | None:
    """The URL's user, for one of two simultaneous requests only: a token is invalid once `last_login` has changed."""
    user = _owner(request)
    if user is None:
        return None
    unused = User.objects.filter(pk=user.pk, last_login=user.last_login)
    return user if unused.update(last_login=timezone.now()) else None


one_time_login = OneTimeLogin.as_view()

"""Pages to return to after signing in, also by a link that names no page."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import resolve, reverse

#: Cookie with the page to return to, its lifetime in seconds, and its longest value.
COOKIE, _SECONDS, _MAX_CHARS = "mh_next", 3600, 2000

#: Route of the page that has the form, by each POST-only route.
PAGES = {
    "sign-out": "projects",
    "theme": "projects",
    "sso": "sign-in",
    "passkey-challenge": "sign-in",
    "passkey-proposal": "second-factor",
    "subject-look-up": "subjects",
    "subject-readmit": "subjects",
    "subject-reveal": "subject",
    "subject-unrestrict": "subject",
    "erasure-confirm": "erasure",
    "erasure-cancel": "erasure",
    "erasure-keep-out": "erasure",
    "erasure-needles": "erasure",
    "paging-flush": "paging",
    "paging-prefetch-clear": "paging-prefetch",
    "reopen": "thread",
    "event-undo": "event",
    "turn-mark": "turn",
    "episode-retry": "episodes",
    "episodes-consolidate": "episodes",
}


def find_page(path: str) -> str:
    """Find the page to open instead of posting to a path: the path, or its form's."""
    route = resolve(path)
    if route.url_name not in PAGES:
        return path
    return reverse(PAGES[route.url_name], kwargs=route.kwargs)


def remember_page(answer: HttpResponse, path: str) -> None:
    """Remember the page in a cookie that the browser sends to the sign-in alone."""
    if len(path) <= _MAX_CHARS:
        answer.set_cookie(
            COOKIE,
            path,
            max_age=_SECONDS,
            path=settings.LOGIN_URL,
            secure=settings.TLS,
            httponly=True,
            samesite="Lax",
        )


def get_remembered_page(request: HttpRequest) -> str:
    """Return the remembered page; empty for none."""
    return request.COOKIES.get(COOKIE, "")


def forget_page(answer: HttpResponse) -> None:
    answer.delete_cookie(COOKIE, path=settings.LOGIN_URL, samesite="Lax")

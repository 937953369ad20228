"""Where somebody goes on whose form was not taken: they have to sign in first."""

from __future__ import annotations

from django.urls import resolve, reverse

#: By each route that only takes posts, the page its form stands on.
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
    "reopen": "thread",
    "event-undo": "event",
    "episode-retry": "episodes",
}


def page_of(path: str) -> str:
    """Find the page to open instead of posting to this path: itself, or PAGES'."""
    route = resolve(path)
    if route.url_name not in PAGES:
        return path
    return reverse(PAGES[route.url_name], kwargs=route.kwargs)

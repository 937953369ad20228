"""Pages to return to after signing in, for a form that needed a sign-in first."""

from __future__ import annotations

from django.urls import resolve, reverse

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
    "episode-retry": "episodes",
    "episodes-consolidate": "episodes",
}


def find_page(path: str) -> str:
    """Find the page to open instead of posting to a path: the path, or its form's."""
    route = resolve(path)
    if route.url_name not in PAGES:
        return path
    return reverse(PAGES[route.url_name], kwargs=route.kwargs)

from __future__ import annotations

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from inspector.web import refusals

Response = HttpResponseBase
Handler = (
    Callable[[HttpRequest], Response] | Callable[[HttpRequest], Awaitable[Response]]
)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=()",
}


class BrowserPolicy:
    """Middleware that adds the security headers to every response, errors included."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Response | Awaitable[Response]:
        response = self.get_response(request)
        if isinstance(response, Awaitable):
            return self._add_headers_later(request, response)
        return _add_headers(request, response)

    async def _add_headers_later(
        self, request: HttpRequest, response: Awaitable[Response]
    ) -> Response:
        return _add_headers(request, await response)


class Sessions(SessionMiddleware):
    """Session middleware that answers 503 in words while the database is away.

    A session is read when a page first asks who is signed in, and saved after the page
    is rendered. Both fail with the database, outside any view that could answer.
    """

    def process_exception(
        self, request: HttpRequest, failure: Exception
    ) -> HttpResponse | None:
        return (
            refusals.render_unavailable(request, failure)
            if refusals.is_database_lost(failure)
            else None
        )

    def process_response(
        self, request: HttpRequest, response: HttpResponse
    ) -> HttpResponse:
        try:
            return super().process_response(request, response)
        except Error as failure:
            if not refusals.is_database_lost(failure):
                raise
            return refusals.render_unavailable(request, failure)


def _add_headers(request: HttpRequest, response: Response) -> Response:
    if settings.DEBUG and response.status_code >= 400:
        # Django's debugging page brings styles of its own.
        return response
    for name, value in HEADERS.items():
        # A header that a view has set is stricter, and stays.
        response.headers.setdefault(name, value)
    # Browsers may cache our static files, but no pages or data.
    if not request.path.startswith(settings.STATIC_URL):
        response.headers["Cache-Control"] = "no-store"
    return response

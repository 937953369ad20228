"""Addresses that take what a form sends: read, they name the page of that form."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from inspector.web import refusals, returns

P = ParamSpec("P")

View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def require_post(view: View[P]) -> View[P]:
    """Let posts through; whatever else comes is answered alike, whoever asks."""

    @wraps(view)
    def posted(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if request.method == "POST":
            return view(request, *args, **kwargs)
        return refusals.only_posts(request, page=returns.page_of(request.path_info))

    return posted

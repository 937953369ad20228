"""Views for POST only: a GET is answered with the page that has the form."""

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
    """Make a view take only POST; other methods get 405, signed in or not."""

    @wraps(view)
    def answer_post(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if request.method == "POST":
            return view(request, *args, **kwargs)
        return refusals.render_only_posts(
            request, page=returns.find_page(request.path_info)
        )

    return answer_post

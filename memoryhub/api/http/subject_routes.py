"""Routes under a subject's id that exist under a thread's name, too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Path

from memoryhub.api.document.fields import Id, ThreadName
from memoryhub.api.http.operations import StrictRouter, View

#: A subject's id, or the name of one of its threads.
Place = UUID | str


class SubjectRouter(StrictRouter):
    """Routes of one noun that belongs to subjects."""

    def route_both(
        self, method: str, path: str, **options: Any
    ) -> Callable[[View], View]:
        """Register a view under a subject's id and under the name of one of its
        threads.

        The view's argument `place` is the id or the name. `options` are those of
        `route`.
        """
        subject, thread = f"/subjects/{{subject}}{path}", f"/threads/{{thread}}{path}"

        def register(view: View) -> View:
            by_id = _bind_place(view, "subject", Path[Id])
            by_name = _bind_place(view, "thread", Path[ThreadName])
            # The operation id in the document.
            by_name.__name__ = f"{view.__name__}_by_thread"
            self.route(method, subject, **options)(by_id)
            self.route(method, thread, **options)(by_name)
            return view

        return register


def _bind_place(view: View, name: str, kind: Any) -> Callable[..., Any]:
    """Return the view with its argument `place` renamed to `name`, as in the path."""

    @wraps(view)
    def call_view(request: HttpRequest, **values: Any) -> Any:
        return view(request, place=values.pop(name), **values)

    signature = inspect.signature(view, eval_str=True)
    parameters = [
        each.replace(name=name, annotation=kind) if each.name == "place" else each
        for each in signature.parameters.values()
    ]
    call_view.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect's
    return call_view

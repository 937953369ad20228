"""Routes of what belongs to a subject, which any thread of it names as well."""

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

#: How a route names a subject: by its id, or by the name of a thread of it.
Place = UUID | str


class SubjectRouter(StrictRouter):
    """Routes of one noun that belongs to subjects."""

    def route_both(
        self, method: str, path: str, **options: Any
    ) -> Callable[[View], View]:
        """Register a view under a subject's id, and under the name of a thread of it.

        Its argument `place` is the one or the other. `options` as of `route`.
        """
        subject, thread = f"/subjects/{{subject}}{path}", f"/threads/{{thread}}{path}"

        def register(view: View) -> View:
            by_id = _with_place(view, "subject", Path[Id])
            by_name = _with_place(view, "thread", Path[ThreadName])
            # What it is called in the document.
            by_name.__name__ = f"{view.__name__}_by_thread"
            self.route(method, subject, **options)(by_id)
            self.route(method, thread, **options)(by_name)
            return view

        return register


def _with_place(view: View, name: str, kind: Any) -> Callable[..., Any]:
    """Return the view with its `place` called `name`, as its address calls it."""

    @wraps(view)
    async def named(request: HttpRequest, **values: Any) -> Any:
        return await view(request, place=values.pop(name), **values)

    signature = inspect.signature(view, eval_str=True)
    parameters = [
        each.replace(name=name, annotation=kind) if each.name == "place" else each
        for each in signature.parameters.values()
    ]
    named.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect's
    return named

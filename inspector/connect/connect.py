"""Connect page: three steps to a first message, and a card that waits for it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access import api_keys as key_forms
from inspector.access.access import require_signed_in, require_signed_in_panel
from inspector.connect import snippets
from inspector.drawing.scenes import ThreadScene
from inspector.lists import panels
from inspector.replay.moments import PANELS
from inspector.web import asof, refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, NotFoundError, Refusal
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.server.clock import clock
from memoryhub.queries.access import api_keys as keys
from memoryhub.queries.overview import refusals as refused
from memoryhub.queries.threads import catalogue
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.services.access import api_keys

#: Codes of refusals listed while the page waits.
_REFUSALS = 5
#: Name of a first key unless the operator chooses another.
PROPOSED_NAME = "my-agent"


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show the steps, and what agents sent since the page was first opened."""
    return _render_page(request, access.require_visitor(request, project))


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def make_key(request: HttpRequest, project: str) -> HttpResponse:
    """Create a key of the name that was sent; only this answer shows the key."""
    visitor = access.require_owner(request, project)
    if request.method != "POST":
        return _render_page(request, visitor)
    access.require_recent_sign_in(request)
    if not key_forms.take_nonce(request):
        here = reverse("connect", kwargs={"project": project})
        return HttpResponseRedirect(here)
    name = request.POST.get("name", "").strip()
    try:
        if not name:
            raise InvalidError(code="name", loc="name")
        row, secret = api_keys.create(visitor.project, name=name, actor=visitor.actor)
    except Refusal as refusal:
        problem = refusals.get_error_text(refusal, key_forms.PROBLEMS)
        status = refusals.get_status(refusal)
        return _render_page(request, visitor, status=status, name=name, problem=problem)
    request.session[_build_session_key(visitor)] = row.prefix
    return _render_page(request, visitor, status=201, secret=secret)


@require_safe
@require_signed_in_panel
def show_panel(request: HttpRequest, project: str, panel: str) -> HttpResponse:
    """Show what agents sent since the page was opened: at last, a thread."""
    visitor = access.require_visitor(request, project)
    if panel != "heard":
        raise Http404
    context = {
        "visitor": visitor,
        **_build_heard(request, visitor, asof.read_since(request)),
    }
    answer = render(request, "inspector/connect/_heard.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


def _render_page(
    request: HttpRequest, visitor: Visitor, *, status: int = 200, **context: Any
) -> HttpResponse:
    since = asof.read_since(request) if request.GET.get("since") else clock.now()
    host = f"{request.scheme}://{request.get_host()}"
    shown = {
        "secret": "",
        "name": PROPOSED_NAME,
        "longest": api_keys.MAX_NAME,
        "problem": "",
        "nonce": key_forms.make_nonce(request) if visitor.owner else "",
        "snippets": snippets.list_snippets(host),
        **_build_heard(request, visitor, since),
        **context,
    }
    return shell.render_page(
        request,
        "inspector/connect/show.html",
        shown,
        visitor=visitor,
        section="connect",
        live=True,
        status=status,
    )


def _build_heard(
    request: HttpRequest, visitor: Visitor, since: datetime
) -> dict[str, Any]:
    """Build the card: find the thread that the page waits for, and show its events.

    Four small queries; with a thread three, and the queries of its panel.
    """
    own = _find_own_key(request, visitor)
    newest = _find_newest_thread(visitor)
    found = newest
    if own is not None:
        found = _find_written_thread(visitor, own)
    elif newest is not None and newest.created_at < since:
        found = None
    context: dict[str, Any] = {
        "since": since,
        "newest": newest,
        "key": own or keys.find_writing_key(visitor.project, now=clock.now()),
        "own": own,
        "found": found,
    }
    others = newest is not None if own is None else own.last_used_at is None
    if found is None and others:
        # Refusals are counted by project, and these are of other agents.
        return context | {"refused": []}
    if found is None:
        lately = refused.list_lately(visitor.project, since=since, limit=_REFUSALS)
        return context | {
            "refused": [(each, _describe_code(each.code)) for each in lately]
        }
    row = access.require_thread(visitor, found.name)
    scene = ThreadScene(thread=row)
    follows = PANELS["events"]
    shown = panels.build_shared_context(scene) | follows.context(scene)
    return context | shown | {"follows": follows}


def _build_session_key(visitor: Visitor) -> str:
    """Build the session's key for the API key that this page created last."""
    return f"connect_key:{visitor.project.id}"


def _find_own_key(request: HttpRequest, visitor: Visitor) -> ApiKey | None:
    """Find the API key that this page created last, unless it was revoked."""
    prefix = request.session.get(_build_session_key(visitor))
    if prefix is not None:
        with suppress(NotFoundError):
            return keys.get_key(visitor.project, prefix)
    return None


def _find_written_thread(visitor: Visitor, key: ApiKey) -> ThreadLine | None:
    """Find the thread that an agent wrote with this key."""
    if key.last_used_at is None:
        return None
    return catalogue.find_written(
        visitor.project,
        actor=f"agent:{key.prefix}",
        since=key.created_at,
        restricted=visitor.officer,
    )


def _describe_code(code: str) -> str:
    """Describe a refusal's code by its class's docstring; empty without a class."""
    waiting: list[type[Refusal]] = [Refusal]
    while waiting:
        kind = waiting.pop(0)
        if kind is not Refusal and vars(kind).get("code") == code:
            return (kind.__doc__ or "").strip().partition("\n")[0]
        waiting += kind.__subclasses__()
    return ""


def _find_newest_thread(visitor: Visitor) -> ThreadLine | None:
    """Find the thread created last among the threads that the visitor may see."""
    found = catalogue.list_threads(
        visitor.project,
        terms=(),
        now=clock.now(),
        sort="created",
        limit=1,
        restricted=visitor.officer,
    )
    return next(iter(found.items), None)

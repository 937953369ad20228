"""Connect: three steps to a first message, and a card that waits for it."""

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
from inspector.access.access import signed_in, signed_in_panel
from inspector.connect import snippets
from inspector.drawing.scenes import Scene
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

#: Codes of refusals that are listed while one waits.
_REFUSALS = 5
#: What a first key is called unless somebody chooses.
PROPOSED_NAME = "my-agent"


@require_safe
@signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show the steps, and what was heard since the page was first opened."""
    return _page(request, access.find_visitor(request, project))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def make_key(request: HttpRequest, project: str) -> HttpResponse:
    """Make a key of the name that was sent; this one answer shows it."""
    visitor = access.find_owner(request, project)
    if request.method != "POST":
        return _page(request, visitor)
    access.require_recent_sign_in(request)
    if not key_forms.first_time(request):
        here = reverse("connect", kwargs={"project": project})
        return HttpResponseRedirect(here)
    name = request.POST.get("name", "").strip()
    try:
        if not name:
            raise InvalidError(code="name", loc="name")
        row, secret = api_keys.create(visitor.project, name=name, actor=visitor.actor)
    except Refusal as refusal:
        problem = refusals.error_text(refusal, key_forms.PROBLEMS)
        status = refusals.status_of(refusal)
        return _page(request, visitor, status=status, name=name, problem=problem)
    request.session[_made_here(visitor)] = row.prefix
    return _page(request, visitor, status=201, secret=secret)


@require_safe
@signed_in_panel
def panel(request: HttpRequest, project: str, panel: str) -> HttpResponse:
    """Show what was heard since the page was opened: at last, a thread."""
    visitor = access.find_visitor(request, project)
    if panel != "heard":
        raise Http404
    context = {"visitor": visitor, **_heard(request, visitor, asof.since(request))}
    answer = render(request, "inspector/connect/_heard.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


def _page(
    request: HttpRequest, visitor: Visitor, *, status: int = 200, **context: Any
) -> HttpResponse:
    since = asof.since(request) if request.GET.get("since") else clock.now()
    host = f"{request.scheme}://{request.get_host()}"
    shown = {
        "secret": "",
        "name": PROPOSED_NAME,
        "longest": api_keys.MAX_NAME,
        "problem": "",
        "nonce": key_forms.new_nonce(request) if visitor.owner else "",
        "snippets": snippets.list_snippets(host),
        **_heard(request, visitor, since),
        **context,
    }
    return shell.page(
        request,
        "inspector/connect/show.html",
        shown,
        visitor=visitor,
        section="connect",
        live=True,
        status=status,
    )


def _heard(request: HttpRequest, visitor: Visitor, since: datetime) -> dict[str, Any]:
    """Look for the thread that is waited for, and show how it goes on.

    Four small queries; with a thread three, and those of its panel.
    """
    own = _key_made_here(request, visitor)
    newest = _newest(visitor)
    found = newest
    if own is not None:
        found = _written(visitor, own)
    elif newest is not None and newest.created_at < since:
        found = None
    context: dict[str, Any] = {
        "since": since,
        "newest": newest,
        "key": own or keys.find_writing_key(visitor.project, now=clock.now()),
        "own": own,
        "found": found,
    }
    if found is None:
        lately = refused.list_lately(visitor.project, since=since, limit=_REFUSALS)
        return context | {"refused": [(each, _reason(each.code)) for each in lately]}
    row = access.find_thread(visitor, found.name)
    scene = Scene(thread=row)
    follows = PANELS["events"]
    shown = panels.shared(scene) | follows.context(scene)
    return context | shown | {"follows": follows}


def _made_here(visitor: Visitor) -> str:
    """Name where a session keeps the key that was made here last."""
    return f"connect_key:{visitor.project.id}"


def _key_made_here(request: HttpRequest, visitor: Visitor) -> ApiKey | None:
    """Find the key that is waited for: the one made here, unless it was revoked."""
    prefix = request.session.get(_made_here(visitor))
    if prefix is not None:
        with suppress(NotFoundError):
            return keys.get_key(visitor.project, prefix)
    return None


def _written(visitor: Visitor, key: ApiKey) -> ThreadLine | None:
    """Find the thread that was written with this key."""
    if key.last_used_at is None:
        return None
    return catalogue.find_written(
        visitor.project,
        actor=f"agent:{key.prefix}",
        since=key.created_at,
        restricted=visitor.officer,
    )


def _reason(code: str) -> str:
    """Say why something is refused by this code; nothing if no class says it."""
    waiting: list[type[Refusal]] = [Refusal]
    while waiting:
        kind = waiting.pop(0)
        if kind is not Refusal and vars(kind).get("code") == code:
            return (kind.__doc__ or "").strip().partition("\n")[0]
        waiting += kind.__subclasses__()
    return ""


def _newest(visitor: Visitor) -> ThreadLine | None:
    """Find the thread that was made last, of those that the visitor may see."""
    found = catalogue.list_threads(
        visitor.project,
        terms=(),
        now=clock.now(),
        sort="created",
        limit=1,
        restricted=visitor.officer,
    )
    return next(iter(found.items), None)

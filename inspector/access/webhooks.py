from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access, api_keys
from inspector.access.access import require_signed_in
from inspector.web import refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import Refusal
from memoryhub.kernel.registry import TYPES
from memoryhub.models.webhooks import MAX_URL
from memoryhub.queries.access import webhooks as queries
from memoryhub.services.access import webhooks

#: Event types that the form proposes, each in words.
PROPOSED: Final[Mapping[str, str]] = {
    "fact.asserted": "A fact was learnt",
    "fact.retracted": "A fact was withdrawn",
    "thread.created": "A thread began",
    "records.erased": "Records were erased",
    "thread.erased": "A thread was erased",
}
#: Form fields of the buttons.
TEST, PAUSE, RESUME, DELETE = "test", "pause", "resume", "delete"
OUTCOMES: Final[Mapping[str, str]] = {
    "delivered": "delivered",
    "refused": "refused by the receiver",
    "redirected": "redirected, which is not followed",
    "timeout": "no answer in time",
    "unreachable": "not reachable",
    "private": "a private address, which is not allowed",
    "no_secret": "the webhook's secret can't be opened",
}
_PROBLEMS: refusals.Texts = {
    "url": "Enter an https address of a public host, without a user and a fragment. "
    "Other hosts stand in MEMORYHUB_WEBHOOK_HOSTS on the server.",
    "types": "Choose at least one event type.",
    "full": f"A project has {webhooks.MOST} webhooks at most. Delete one first.",
}


@require_safe
@require_signed_in
def index(request: HttpRequest, project: str) -> HttpResponse:
    """List the project's webhooks."""
    visitor = access.require_owner(request, project)
    context = {"webhooks": queries.list_webhooks(visitor.project)}
    return _render_page(request, visitor, "index", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def create_webhook(request: HttpRequest, project: str) -> HttpResponse:
    """Create a webhook. The answer itself shows the secret, once: no redirect."""
    visitor = access.require_owner(request, project)
    access.require_recent_sign_in(request)
    if request.method != "POST":
        return _render_form(request, visitor)
    if not api_keys.take_nonce(request):
        return HttpResponseRedirect(_build_index_url(project))
    try:
        row, secret = webhooks.create(
            visitor.project,
            url=request.POST.get("url", "").strip(),
            types=request.POST.getlist("types"),
            actor=visitor.actor,
        )
    except Refusal as refusal:
        return _render_form(request, visitor, refusal=refusal)
    context = {"webhook": row, "secret": secret}
    return _render_page(request, visitor, "made", context, status=201)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def show(request: HttpRequest, project: str, webhook: UUID) -> HttpResponse:
    """Show a webhook's state; test, pause, resume or delete it."""
    visitor = access.require_owner(request, project)
    row = queries.get_webhook(visitor.project, webhook)
    if request.method != "POST":
        return _render_page(request, visitor, "show", {"webhook": row})
    access.require_recent_sign_in(request)
    if DELETE in request.POST:
        webhooks.delete(row, actor=visitor.actor)
        return HttpResponseRedirect(_build_index_url(project))
    if TEST in request.POST:
        webhooks.request_test(row, actor=visitor.actor)
    elif PAUSE in request.POST or RESUME in request.POST:
        paused = PAUSE in request.POST
        webhooks.set_paused(row, paused=paused, actor=visitor.actor)
    return HttpResponseRedirect(request.path)


def _render_form(
    request: HttpRequest, visitor: Visitor, *, refusal: Refusal | None = None
) -> HttpResponse:
    chosen = {*PROPOSED}
    if request.method == "POST":
        chosen = {*request.POST.getlist("types")}
    groups: dict[str, list[str]] = {}
    others = sorted(TYPES.keys() - PROPOSED.keys())
    for each in others:
        groups.setdefault(each.partition(".")[0].removesuffix("s"), []).append(each)
    context = {
        "url": request.POST.get("url", "")[:MAX_URL],
        "longest": MAX_URL,
        "proposed": PROPOSED,
        "groups": groups,
        "others": len(others),
        "chosen": chosen,
        "opened": not chosen.isdisjoint(others),
        "problem": refusals.get_error_text(refusal, _PROBLEMS),
        "nonce": api_keys.make_nonce(request),
    }
    status = refusals.get_status(refusal)
    return _render_page(request, visitor, "new", context, status=status)


def _render_page(
    request: HttpRequest,
    visitor: Visitor,
    name: str,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    return shell.render_page(
        request,
        f"inspector/access/webhooks/{name}.html",
        {"outcomes": OUTCOMES, **context},
        visitor=visitor,
        section="webhooks",
        status=status,
    )


def _build_index_url(project: str) -> str:
    return reverse("webhooks", kwargs={"project": project})

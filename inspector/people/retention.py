from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import policy
from inspector.drawing.scenes import ThreadScene
from inspector.lists import panels
from inspector.web import refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.models.projects import MOST_IDLE_DAYS
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import retention
from memoryhub.services.threads import operator_threads


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def edit(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show or set the days this thread may idle, and when its retention is due."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    if request.method != "POST":
        return _render_form(request, visitor, row)
    text = request.POST.get(policy.FIELD, "")
    try:
        days = policy.read(text)
        operator_threads.set_retention(
            row, actor=visitor.actor, idle_days=days, owner=visitor.owner
        )
    except Refusal as refusal:
        return _render_form(request, visitor, row, text=text, refusal=refusal)
    where = {"project": project, "thread": thread}
    return HttpResponseRedirect(reverse("retention", kwargs=where))


def _render_form(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    *,
    text: str | None = None,
    refusal: Refusal | None = None,
) -> HttpResponse:
    shared = panels.build_shared_context(ThreadScene(thread=row))
    own = shared["thread"].config.get(policy.FIELD)
    texts: refusals.Texts = {InvalidError: policy.render_days_help(owner=visitor.owner)}
    context = {
        **shared,
        "own": own,
        "due_at": retention.get_due_at(row),
        "text": policy.render_days(own) if text is None else text,
        "most": MOST_IDLE_DAYS,
        "problem": refusals.get_error_text(refusal, texts),
    }
    return shell.render_page(
        request,
        "inspector/threads/retention.html",
        context,
        visitor=visitor,
        section="threads",
        status=refusals.get_status(refusal),
    )

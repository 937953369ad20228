"""Form of a thread's own instructions to observer and reflector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.lists import visits
from inspector.memory import editing
from inspector.web import refusals
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.state.observing import ObserverRole
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.projects import MOST_INSTRUCTION_BYTES
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import instructions
from memoryhub.queries.observing.instructions import ROLES
from memoryhub.queries.replay import states
from memoryhub.services.observing import observers

_PROBLEMS: Final[refusals.Texts] = {
    InvalidError: "Enter at most 8 KiB for each: a few sentences."
}
_TEMPLATE: Final = "inspector/observing/observer/instruct.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownInstructions:
    """A thread's own instructions to a role; None where the project's hold."""

    role: ObserverRole
    text: str | None


def build_shown(thread: Thread, state: ThreadState) -> list[ShownInstructions]:
    """Build what the observing page shows of instructions, by role."""
    own = instructions.list_own_instructions(thread, state)
    return [
        ShownInstructions(role=role, text=own[role].text if role in own else None)
        for role in ROLES
    ]


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def edit(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show the form of an editor; a POST saves what it changes."""
    visitor, row = editing.require_editor(request, project, thread)
    problem = None
    if request.method == "POST":
        shown = [_read_role(request, role) for role in ROLES]
        try:
            command = observers.build_instructing(
                {each.role: each.text for each in shown}
            )
            observers.perform_command(row, command, actor=visitor.actor)
        except Refusal as refusal:
            problem = refusal
        else:
            where = {"project": project, "thread": row.name}
            return HttpResponseRedirect(reverse("observer", kwargs=where))
    else:
        shown = build_shown(row, states.load_state(row))
    context = {
        "shown": shown,
        "most": MOST_INSTRUCTION_BYTES,
        "problem": refusals.get_error_text(problem, _PROBLEMS, numbers=True),
    }
    return visits.render_thread_page(
        request,
        _TEMPLATE,
        visitor,
        row,
        context,
        status=refusals.get_status(problem),
    )


def _read_role(request: HttpRequest, role: ObserverRole) -> ShownInstructions:
    """Read the part of the form about a role."""
    own = request.POST.get(f"{role}_whose") == "own"
    # Browsers send other line ends than the text was stored with.
    text = request.POST.get(f"{role}_text", "").replace("\r\n", "\n")
    return ShownInstructions(role=role, text=text if own else None)

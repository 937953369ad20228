"""Visits: a person's memory, which the home thread holds, as of the URL's moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.drawing.first_words import cut_to_line
from inspector.lists import visits
from inspector.lists.visits import Visit
from inspector.web import asof, shell
from inspector.web.asof import ShownMoment
from inspector.web.visitors import Visitor
from memoryhub.models.access.operators import Membership
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.people import remembered

#: Parameters of an address that name a moment of one thread.
_MOMENTS = ("at_seq", "at_turn")
#: Fields of a form that ask for an answer of another day.
_CLOCKS = ("known_at", "valid_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonVisit:
    """A visitor at a person's memory as of a moment."""

    visitor: Visitor
    subject: Subject
    #: Visit of the home thread; None before the first fact or block.
    home: Visit | None

    @property
    def moment(self) -> ShownMoment:
        return self.home.moment if self.home else ShownMoment(seq=0, head=0, live=True)

    @property
    def editable(self) -> bool:
        """Tell whether the visitor may edit: an editor, live."""
        return self.home.editable if self.home else self.visitor.editor

    @property
    def names(self) -> dict[str, str]:
        """Return the arguments of the addresses of the person's pages."""
        project = self.visitor.project.slug
        return {"project": project, "subject": str(self.subject.id)}


def find(request: HttpRequest, project: str, subject: UUID) -> PersonVisit:
    """Find a person's memory as of the URL's moment; the home is audited as read.

    Three queries, one more for `at_turn`. Raises as `access` and `asof.read` do.
    """
    visitor = access.require_visitor(request, project)
    row = access.require_person(visitor, subject)
    home = find_home(row)
    if home is None:
        return PersonVisit(visitor=visitor, subject=row, home=None)
    visitor.note_threads([home])
    visit = Visit(visitor=visitor, row=home, moment=asof.read(request, home))
    return PersonVisit(visitor=visitor, subject=row, home=visit)


def require_editor(request: HttpRequest, project: str, subject: UUID) -> PersonVisit:
    """Find a person's memory for an editor. Raises RoleError."""
    visit = find(request, project, subject)
    visit.visitor.require_role(Membership.Role.EDITOR)
    return visit


def find_hint(visitor: Visitor, subject: UUID) -> str:
    """Find a line of the memory of a person, which tells the person from others.

    Empty without one. Four queries; the home thread is audited as read.
    """
    found = remembered.find_first_lines([subject], restricted=visitor.officer)
    line = found.get(subject)
    if line is None:
        return ""
    visitor.note_threads([line.home])
    return cut_to_line(line.text)


def render_page(
    request: HttpRequest,
    template: str | list[str],
    visit: PersonVisit,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    """Render a page of a person as of a moment, with the moment in the pill."""
    moment, home = visit.moment, visit.home
    # The line is of now: a page of the past, or an answer of another day, has none.
    chosen = request.GET.get("known"), *map(request.POST.get, _CLOCKS)
    is_now = moment.live and not any(chosen)
    where = {"project": visit.visitor.project.slug}
    around = {
        "subject": visit.subject,
        "hint": find_hint(visit.visitor, visit.subject.id) if is_now else "",
        "base": reverse("subject", kwargs=visit.names),
        "home": reverse("thread", kwargs={**where, "thread": home.row.name})
        if home
        else "",
        "as_of": moment,
        "at": moment.seq,
        "live": moment.live,
        "to_now": f"?{context.get('search', '')}",
    }
    return shell.render_page(
        request,
        template,
        around | context,
        visitor=visit.visitor,
        section="subjects",
        status=status,
    )


def redirect_to_page(
    route: str, names: dict[str, str], query: dict[str, Any], *, anchor: str = ""
) -> HttpResponse:
    """Redirect to a page of a person."""
    where = reverse(route, kwargs=names)
    return HttpResponseRedirect(
        f"{where}{f'?{urlencode(query)}' if query else ''}{anchor}"
    )


@require_safe
@access.require_signed_in
def redirect_old_address(
    request: HttpRequest, /, project: str, thread: str, *, route: str, **names: Any
) -> HttpResponse:
    """Redirect the former address of a page, under a thread of the person."""
    row = visits.find(request, project, thread).row
    query = request.GET.copy()
    if not row.home:
        # A moment of one thread does not apply to another.
        for moment in _MOMENTS:
            query.pop(moment, None)
    where = reverse(
        route, kwargs={"project": project, "subject": row.subject_id, **names}
    )
    return HttpResponseRedirect(f"{where}{'?' if query else ''}{query.urlencode()}")

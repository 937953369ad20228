"""Screens of people, the subjects whose memory agents keep, by internal id.

Members see people and what they see of threads. Officers alone see holds, erasures,
generations, people who were forgotten, and the names that agents use.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import require_signed_in, require_signed_in_panel
from inspector.drawing.first_words import cut_to_line
from inspector.forget import privacy_pages
from inspector.lists import person_visits, screens
from inspector.lists.screens import Context, ListRequest, Screen, ScreenExport
from inspector.people import person_page
from inspector.people.subject_acts import HOLDS, RESTRICTIONS
from inspector.web import asof, erased_page, forgetting
from inspector.web.methods import require_post
from inspector.web.records import Record
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, SubjectErasedError
from memoryhub.models.access.operators import Membership
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.access.actors import ActorNames
from memoryhub.queries.forget import erasures, holds
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.people import profiles, remembered, subject_lists
from memoryhub.queries.people.subject_lists import LIVING, STATES, SubjectLine
from memoryhub.services.access import audit
from memoryhub.services.imports import readmissions
from memoryhub.services.people import restrictions
from memoryhub.services.people import subjects as people


def _list_states(ask: ListRequest[Visitor]) -> Sequence[str]:
    """List the states of the people whom the visitor may see in the list."""
    return STATES if ask.where.officer else LIVING


def _require_state(ask: ListRequest[Visitor]) -> str:
    """Return the state that the URL asks for. Raises InvalidError for a hidden one."""
    state: str = ask.parsed.options["state"]
    if state and state not in _list_states(ask):
        raise InvalidError(loc="state")
    return state


def _list_batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> ListBatch[SubjectLine]:
    return subject_lists.list_subjects(
        ask.where.project,
        state=_require_state(ask),
        among=_list_states(ask),
        now=ask.now,
        after=after,
        limit=limit,
    )


def _build_lines(ask: ListRequest[Visitor]) -> Context:
    """Build the list, with a line of what is remembered of each person.

    Who has none is told by the thread that moved last. Nobody but officers gets either
    of a person whose memory is restricted.
    """
    found = _list_batch(ask, ask.after, ask.limit)
    people = [line.id for line in found.items]
    lines = remembered.find_first_lines(people, restricted=ask.where.officer)
    ask.where.note_threads(line.home for line in lines.values())
    words = {subject: cut_to_line(line.text) for subject, line in lines.items()}
    newest = subject_lists.find_newest_threads(
        ask.where.project,
        [person for person in people if person not in words],
        among=LIVING if ask.where.officer else (Subject.State.ACTIVE.value,),
    )
    listed = screens.build_list_context(ask, found)
    return {**listed, "remembered": words, "newest": newest}


def _build_record(_: str, line: SubjectLine) -> Record:
    return {
        "subject": str(line.id),
        "state": line.state,
        "anonymous": line.anonymous,
        "generation": line.generation,
        # None beyond the most threads that the list counts.
        "threads": None if line.many else line.threads,
        "held": line.held,
        "first_seen": line.created_at.isoformat(),
        "last_seen": line.last_seen.isoformat() if line.last_seen else None,
    }


SCREEN = Screen(
    folder="people/subjects",
    label="People",
    scope=screens.build_project_scope("subjects"),
    read=partial(screens.read_choice, "state", STATES),
    lines=_build_lines,
    around=lambda ask: {"states": _list_states(ask)},
    export=ScreenExport(
        fields=(
            "subject", "state", "anonymous", "generation", "threads", "held",
            "first_seen", "last_seen",
        ),
        record=_build_record,
        batch=_list_batch,
        size=None,
        admit=lambda visitor: visitor.require_role(Membership.Role.OFFICER),
    ),
)  # fmt: skip


#: Texts for restrictions by an open erasure, which end only with the erasure.
KEPT = {
    restrictions.PLANNED: "an erasure plan waits for its confirmation",
    restrictions.HELD: "a hold stops the erasure",
}


@require_post
@require_signed_in
def look_up(request: HttpRequest, project: str) -> HttpResponse:
    """Find a subject's page by the external user id, which appears in no address."""
    visitor = privacy_pages.require_acting_officer(request, project)
    user_id = request.POST.get("user_id", "")
    try:
        row = people.find(visitor.project.id, user_id)
    except InvalidError:
        return _render_missed(request, visitor, 422)
    except SubjectErasedError as gone:
        _audit_look(visitor, "subject.looked_up", None, outcome=gone.code)
        return erased_page.render_page(request, visitor, gone, user_id=user_id)
    _audit_look(visitor, "subject.looked_up", row)
    if row is None:
        return _render_missed(request, visitor, 404)
    where = {"project": project, "subject": row.id}
    return HttpResponseRedirect(reverse("subject", kwargs=where))


@require_post
@require_signed_in
def readmit(request: HttpRequest, project: str) -> HttpResponse:
    """Readmit an erased user id, as a new subject."""
    visitor = privacy_pages.require_acting_officer(request, project)
    user_id = request.POST.get("user_id", "")
    try:
        made = readmissions.readmit_subject(
            visitor.project.id, user_id, actor=visitor.actor
        )
    except InvalidError:
        return _render_missed(request, visitor, 422)
    where = {"project": project, "subject": made.id}
    return HttpResponseRedirect(reverse("subject", kwargs=where))


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Show the page of a person; with `as_of`, go to the facts of that day's end."""
    visitor = access.require_visitor(request, project)
    row = access.require_person(visitor, subject)
    if day := request.GET.get("as_of", ""):
        return _redirect_to_facts(row, asof.parse_instant(day, "as_of"))
    return _render_person(request, visitor, row)


@require_safe
@require_signed_in_panel
def show_panel(
    request: HttpRequest, project: str, subject: UUID, panel: str
) -> HttpResponse:
    """Show the counts of a person's memory, which the page fetches when asked."""
    visitor = access.require_visitor(request, project)
    row = access.require_person(visitor, subject)
    if panel != "records":
        raise Http404
    context = {
        "visitor": visitor,
        "subject": row,
        "records": _build_records(visitor, row),
        "actors": ActorNames(visitor.project.id),
    }
    answer = render(request, "inspector/people/subjects/_records.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


@require_post
@require_signed_in
def reveal(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Show a subject's page with the external user id. No redirect: no URL holds it."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = privacy_pages.require_subject(visitor, subject)
    # Write the audit entry before the page shows the id.
    _audit_look(visitor, "subject.revealed", row)
    return _render_person(request, visitor, row, user_id=people.open_user_id(row))


def _redirect_to_facts(row: Subject, day: datetime) -> HttpResponse:
    """Redirect to the facts as of the end of a day."""
    names = {"project": row.project.slug, "subject": str(row.id)}
    valid = person_page.to_minutes(day, now=clock.now())
    return person_visits.redirect_to_page("facts", names, {"valid": valid})


def _audit_look(
    visitor: Visitor, action: str, row: Subject | None, *, outcome: str = "not_found"
) -> None:
    """Record a look in the audit log before its page is shown."""
    found: dict[str, Any] = {"outcome": outcome}
    if row is not None:
        found = {"target_kind": "subject", "target_id": str(row.id), "subject": row.id}
    audit.record(
        actor=visitor.actor, action=action, project=visitor.project.id, **found
    )


def _render_missed(request: HttpRequest, visitor: Visitor, status: int) -> HttpResponse:
    ask = SCREEN.read_request(request, visitor)
    return SCREEN.render_page(ask, status=status, missed=True)


def _render_person(
    request: HttpRequest, visitor: Visitor, row: Subject, *, user_id: str | None = None
) -> HttpResponse:
    now = clock.now()
    context = {
        "subject": row,
        "hint": person_visits.find_hint(visitor, row.id),
        "user_id": user_id,
        "revealed": user_id is not None,
        "basis": RESTRICTIONS.get(row.basis, KEPT.get(row.basis, row.basis)),
        "kept": row.basis in KEPT,
        "records": _build_records(visitor, row) if "records" in request.GET else None,
        **_list_privacy(visitor, row, now=now),
        **person_page.build_context(visitor, row, now=now),
    }
    return privacy_pages.render_page(
        request, visitor, "people/subjects/show", context, tab="subjects"
    )


def _list_privacy(visitor: Visitor, row: Subject, *, now: datetime) -> dict[str, Any]:
    """List holds and erasures, which officers alone may see. Three queries."""
    if not visitor.officer:
        return {"holds": (), "held": False, "erased": [], "hold_bases": HOLDS}
    found = holds.list_subject_holds(row.id, now=now)
    listed = erasures.list_erasures(
        visitor.project.id, subject=row.id, limit=profiles.ERASURES
    )
    return {
        "holds": found,
        "held": any(each.in_force for each in found),
        "erased": [(line, forgetting.build_progress(line)) for line in listed.items],
        "hold_bases": HOLDS,
    }


def _build_records(visitor: Visitor, row: Subject) -> dict[str, Any]:
    """Build the counts of the person's memory. The cost grows with the facts."""
    profile = profiles.get_profile(row, now=clock.now())
    return {
        "profile": profile,
        "figures": person_page.list_figures(profile, officer=visitor.officer),
        "kinds": person_page.list_kinds(profile),
    }

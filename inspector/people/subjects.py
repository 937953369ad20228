"""Screens of subjects, the people whose memory agents keep, by internal id."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in
from inspector.forget import privacy_pages
from inspector.lists import screens
from inspector.lists.screens import ListRequest, Screen, ScreenExport
from inspector.people.subject_acts import HOLDS, RESTRICTIONS
from inspector.web import erased_page, forgetting
from inspector.web.methods import require_post
from inspector.web.records import Record
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, SubjectErasedError
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.people import profiles, subject_lists
from memoryhub.queries.people.profiles import Profile
from memoryhub.queries.people.subject_lists import STATES, SubjectLine
from memoryhub.services.access import audit
from memoryhub.services.imports import readmissions
from memoryhub.services.people import restrictions
from memoryhub.services.people import subjects as people


def _list_batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> ListBatch[SubjectLine]:
    return subject_lists.list_subjects(
        ask.where.project,
        state=ask.parsed.options["state"],
        now=ask.now,
        after=after,
        limit=limit,
    )


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
    scope=screens.build_project_scope("subjects", enter=privacy_pages.require_officer),
    read=partial(screens.read_choice, "state", STATES),
    around=lambda _: {"states": STATES},
    export=ScreenExport(
        fields=(
            "subject", "state", "anonymous", "generation", "threads", "held",
            "first_seen", "last_seen",
        ),
        record=_build_record,
        batch=_list_batch,
        size=None,
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
    visitor = privacy_pages.require_officer(request, project)
    return _render_subject(
        request, visitor, privacy_pages.require_subject(visitor, subject)
    )


@require_post
@require_signed_in
def reveal(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Show a subject's page with the external user id. No redirect: no URL holds it."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = privacy_pages.require_subject(visitor, subject)
    # Write the audit entry before the page shows the id.
    _audit_look(visitor, "subject.revealed", row)
    return _render_subject(request, visitor, row, user_id=people.open_user_id(row))


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


def _render_subject(
    request: HttpRequest, visitor: Visitor, row: Subject, *, user_id: str | None = None
) -> HttpResponse:
    profile = profiles.get_profile(row, now=clock.now())
    context = {
        "subject": row,
        "profile": profile,
        "figures": _list_figures(profile),
        "user_id": user_id,
        "revealed": user_id is not None,
        "erased": [
            (line, forgetting.build_progress(line)) for line in profile.erasures
        ],
        "names": subject_lists.list_thread_names(row),
        "home": find_home(row),
        "basis": RESTRICTIONS.get(row.basis, KEPT.get(row.basis, row.basis)),
        "kept": row.basis in KEPT,
        "hold_bases": HOLDS,
    }
    return privacy_pages.render_page(
        request, visitor, "people/subjects/show", context, tab="subjects"
    )


def _list_figures(profile: Profile) -> list[tuple[str, int]]:
    """List the counts of the subject's data by kind, for the head of the page."""
    return [
        ("Threads", sum(profile.threads.values())),
        ("Events", profile.events),
        ("Messages", profile.slots),
        ("Episodes", profile.episodes),
        ("Blocks", profile.blocks),
        ("Facts", profile.facts),
        ("Episodes not searched for facts", profile.pending.waiting),
        ("Pages", profile.pages),
        ("Keys", profile.keys),
        *((name.capitalize(), count) for name, count in profile.counts.items()),
        ("Tombstones", sum(profile.tombstones.values())),
    ]

"""Subjects: everybody whose memory agents keep, by an id of ours."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.forget import privacy_pages
from inspector.lists import screens
from inspector.lists.screens import Export, ListRequest, Screen
from inspector.people.subject_acts import RESTRICTIONS
from inspector.web import erased_page, forgetting
from inspector.web.methods import require_post
from inspector.web.records import Record
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, SubjectErasedError
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.people import profiles, subject_lists
from memoryhub.queries.people.profiles import Profile
from memoryhub.queries.people.subject_lists import STATES, SubjectLine
from memoryhub.services.access import audit
from memoryhub.services.imports import readmissions
from memoryhub.services.people import restrictions
from memoryhub.services.people import subjects as people


def _batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> Batch[SubjectLine]:
    return subject_lists.list_subjects(
        ask.where.project,
        state=ask.parsed.options["state"],
        now=ask.now,
        after=after,
        limit=limit,
    )


def _record(_: str, line: SubjectLine) -> Record:
    return {
        "subject": str(line.id),
        "state": line.state,
        "anonymous": line.anonymous,
        "generation": line.generation,
        # None where there are more than are counted.
        "threads": None if line.many else line.threads,
        "held": line.held,
        "first_seen": line.created_at.isoformat(),
        "last_seen": line.last_seen.isoformat() if line.last_seen else None,
    }


SCREEN = Screen(
    folder="people/subjects",
    scope=screens.project_scope("subjects", enter=privacy_pages.enter),
    read=partial(screens.chosen, "state", STATES),
    around=lambda _: {"states": STATES},
    export=Export(
        fields=(
            "subject", "state", "anonymous", "generation", "threads", "held",
            "first_seen", "last_seen",
        ),
        record=_record,
        batch=_batch,
        size=None,
    ),
)  # fmt: skip


#: What an open erasure restricts somebody for; only its end ends that.
KEPT = {
    restrictions.PLANNED: "a plan to forget waits to be confirmed",
    restrictions.HELD: "a hold stands against forgetting",
}


@require_post
@signed_in
def look_up(request: HttpRequest, project: str) -> HttpResponse:
    """Find its page by the id that it has outside, which is in no address."""
    visitor = privacy_pages.act(request, project)
    user_id = request.POST.get("user_id", "")
    try:
        row = people.find(visitor.project.id, user_id)
    except InvalidError:
        return _missed(request, visitor, 422)
    except SubjectErasedError as gone:
        _note(visitor, "subject.looked_up", None, outcome=gone.code)
        return erased_page.response(request, visitor, gone, user_id=user_id)
    _note(visitor, "subject.looked_up", row)
    if row is None:
        return _missed(request, visitor, 404)
    where = {"project": project, "subject": row.id}
    return HttpResponseRedirect(reverse("subject", kwargs=where))


@require_post
@signed_in
def readmit(request: HttpRequest, project: str) -> HttpResponse:
    """Let somebody who was erased in again, as somebody new."""
    visitor = privacy_pages.act(request, project)
    user_id = request.POST.get("user_id", "")
    try:
        made = readmissions.readmit(visitor.project.id, user_id, actor=visitor.actor)
    except InvalidError:
        return _missed(request, visitor, 422)
    where = {"project": project, "subject": made.id}
    return HttpResponseRedirect(reverse("subject", kwargs=where))


@require_safe
@signed_in
def show(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    visitor = privacy_pages.enter(request, project)
    return _show(request, visitor, privacy_pages.find_subject(visitor, subject))


@require_post
@signed_in
def reveal(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Show its page with the id that it has outside. No redirect: it is on no other."""
    visitor = privacy_pages.act(request, project)
    row = privacy_pages.find_subject(visitor, subject)
    # First the note, then the look.
    _note(visitor, "subject.revealed", row)
    return _show(request, visitor, row, user_id=people.external_id(row))


def _note(
    visitor: Visitor, action: str, row: Subject | None, *, outcome: str = "not_found"
) -> None:
    """Note it in the audit log; what can't be noted is not shown."""
    found: dict[str, Any] = {"outcome": outcome}
    if row is not None:
        found = {"target_kind": "subject", "target_id": str(row.id), "subject": row.id}
    audit.record(
        actor=visitor.actor, action=action, project=visitor.project.id, **found
    )


def _missed(request: HttpRequest, visitor: Visitor, status: int) -> HttpResponse:
    ask = SCREEN.ask(request, visitor)
    return SCREEN.page(ask, status=status, missed=True)


def _show(
    request: HttpRequest, visitor: Visitor, row: Subject, *, user_id: str | None = None
) -> HttpResponse:
    profile = profiles.get_profile(row, now=clock.now())
    context = {
        "subject": row,
        "profile": profile,
        "figures": _figures(profile),
        "user_id": user_id,
        "revealed": user_id is not None,
        "erased": [(line, forgetting.progress(line)) for line in profile.erasures],
        "names": subject_lists.list_thread_names(row),
        "home": find_home(row),
        "basis": RESTRICTIONS.get(row.basis, KEPT.get(row.basis, row.basis)),
        "kept": row.basis in KEPT,
    }
    return privacy_pages.page(
        request, visitor, "people/subjects/show", context, tab="subjects"
    )


def _figures(profile: Profile) -> list[tuple[str, int]]:
    """Count what there is of it, by kind, as the page heads it."""
    return [
        ("Threads", sum(profile.threads.values())),
        ("Events", profile.events),
        ("Slots", profile.slots),
        ("Episodes", profile.episodes),
        ("Blocks", profile.blocks),
        ("Facts", profile.facts),
        ("Not asked for facts yet", profile.pending.waiting),
        ("Pages", profile.pages),
        ("Keys", profile.keys),
        *((name.capitalize(), count) for name, count in profile.counts.items()),
        ("Tombstones", sum(profile.tombstones.values())),
    ]

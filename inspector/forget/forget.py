from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import QueryDict
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.forget import erasing, privacy_pages
from inspector.lists import person_visits
from inspector.web import forgetting, refusals
from inspector.web.methods import require_post
from inspector.web.visitors import Visitor
from memoryhub.errors import (
    CountMismatchError,
    ErasureInProgressError,
    InvalidError,
    NotFoundError,
    Refusal,
    SeqUnknownError,
)
from memoryhub.kernel.text import user_ids
from memoryhub.models.erasures import Erasure
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views, erasures
from memoryhub.queries.forget.erasure_targets import Clock, get_clock
from memoryhub.queries.people import subject_lists
from memoryhub.queries.threads import threads
from memoryhub.services.forget import erasures as eraser
from memoryhub.services.scan import collecting

#: Characters of a name, a seq or a ticket.
_LONGEST = 128
_TYPED = re.compile(r"forget ([0-9][0-9,]{0,18})")
_PROBLEMS: refusals.Texts = {
    "scope": "Choose what to forget.",
    "reason": "Choose a reason from the list.",
    "ticket": "A ticket is up to 8 capital letters, a hyphen and up to 7 digits.",
    "thread": "This person has no thread with this name.",
    "before": "Give a time in the past, in UTC, such as 2026-01-31T12:00.",
    "record": "This thread has no event with this number.",
}
#: Texts for what is wrong with the words typed for a second scan.
_NOT_TYPED = {
    "user_id": "This is not the user id of the erased person.",
    "texts": "Type a longer text: a short text could occur anywhere.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureForm:
    """Fields of a plan as the operator sent them, shown again after a refusal."""

    scope: str = Erasure.Scope.SUBJECT
    thread: str = ""
    before: str = ""
    record: str = ""
    reason: str = ""
    ticket: str = ""
    #: Whether `before` compares the time of recording.
    recorded: bool = False
    restrict: bool = True

    @classmethod
    def from_query(cls, sent: QueryDict, *, ticked: bool) -> ErasureForm:
        """Read the fields; `ticked` is whether agents are kept out by default."""
        words = ("thread", "before", "record", "reason", "ticket")
        texts = {word: sent.get(word, "").strip()[:_LONGEST] for word in words}
        scope = sent.get("scope", Erasure.Scope.SUBJECT)
        restrict = sent.get("restrict", "1" if ticked else "0") != "0"
        recorded = sent.get("recorded", "") == "1"
        return cls(scope=scope, restrict=restrict, recorded=recorded, **texts)

    @property
    def has_thread(self) -> bool:
        """Tell whether the plan erases records of one thread only."""
        if self.scope == Erasure.Scope.BEFORE:
            return bool(self.thread)
        return self.scope in (Erasure.Scope.THREAD, Erasure.Scope.RECORD)

    @property
    def clock(self) -> Clock:
        return "recorded" if self.recorded else "occurred"


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def begin(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Ask what to forget, and why. A POST plans and counts, and erases nothing."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = privacy_pages.require_subject(visitor, subject)
    if request.method != "POST":
        return _render_form(
            request, visitor, row, ErasureForm.from_query(request.GET, ticked=True)
        )
    form = ErasureForm.from_query(request.POST, ticked=False)
    try:
        made = _plan_erasure(visitor, row, form)
    except ErasureInProgressError as refusal:
        under_way = erasure_views.get_open(row.id)
        if under_way is not None and _is_same_plan(under_way, form):
            # The operator sent the same form again: one erasure.
            if form.restrict:
                # If the plan was confirmed meanwhile, its page shows the progress.
                with suppress(Refusal):
                    eraser.keep_out(under_way, actor=visitor.actor)
            return _redirect_to_erasure(visitor, under_way.id)
        return _render_form(request, visitor, row, form, refusal=refusal)
    except Refusal as refusal:
        return _render_form(request, visitor, row, form, refusal=refusal)
    return _redirect_to_erasure(visitor, made.id)


@require_post
@require_signed_in
def confirm(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Confirm the plan, once the operator typed its count."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    token = request.POST.get("token", "")[:512]
    try:
        eraser.confirm(
            row,
            token=token,
            count=_parse_typed_count(request, row),
            actor=visitor.actor,
        )
    except Refusal as refusal:
        # The service has replaced a stale plan by a fresh one.
        fresh = erasures.get_row(visitor.project.id, erasure)
        return erasing.render_page(request, visitor, fresh, refusal=refusal)
    answer = _redirect_to_erasure(visitor, erasure)
    answer.headers["Clear-Site-Data"] = '"cache", "storage"'
    return answer


@require_post
@require_signed_in
def keep_out(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Keep agents out and count the plan anew, so that the plan stays valid."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    try:
        eraser.keep_out(row, actor=visitor.actor)
    except Refusal as refusal:
        return erasing.render_page(request, visitor, row, refusal=refusal)
    return _redirect_to_erasure(visitor, erasure)


@require_post
@require_signed_in
def recall(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Scan again for the user id that the operator typed again."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    typed = request.POST.get("user_id", "")[: user_ids.MAX_CHARS]
    try:
        collecting.recall_targets(row, [typed])
    except InvalidError as refusal:
        problem = _NOT_TYPED.get(refusal.loc, "")
        return erasing.render_page(
            request, visitor, row, refusal=refusal, problem=problem
        )
    return _redirect_to_erasure(visitor, erasure)


@require_post
@require_signed_in
def cancel(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Drop a plan; an erasure that has begun goes on."""
    visitor = privacy_pages.require_acting_officer(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    try:
        eraser.cancel(row, actor=visitor.actor)
    except Refusal as refusal:
        return erasing.render_page(request, visitor, row, refusal=refusal)
    where = {"project": project, "subject": row.subject_id}
    return HttpResponseRedirect(reverse("subject", kwargs=where))


def _plan_erasure(visitor: Visitor, row: Subject, form: ErasureForm) -> Erasure:
    try:
        return eraser.plan(
            row,
            scope=form.scope,
            thread=_require_thread(visitor, row, form.thread)
            if form.has_thread
            else None,
            before=_parse_before(form.before)
            if form.scope == Erasure.Scope.BEFORE
            else None,
            clocked=form.clock,
            seq=_parse_seq(form.record) if form.scope == Erasure.Scope.RECORD else None,
            reason=form.reason,
            ticket=form.ticket or None,
            restrict=form.restrict,
            actor=visitor.actor,
        )
    except SeqUnknownError:
        raise InvalidError(loc="record") from None


def _require_thread(visitor: Visitor, subject: Subject, name: str) -> Thread:
    try:
        return threads.get_thread(visitor.project.id, name, subject=subject.id)
    except NotFoundError:
        raise InvalidError(loc="thread") from None


def _parse_before(text: str) -> datetime:
    """Parse a time from a browser's field, in UTC. Raises InvalidError."""
    try:
        at = parse_datetime(text)
        if at is not None:
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # no time, or a time before year 1 or after year 9999
    raise InvalidError(loc="before")


def _parse_seq(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidError(loc="record")
    return int(text)


def _parse_typed_count(request: HttpRequest, row: Erasure) -> int:
    """Parse the count that was typed after `forget`. Raises CountMismatchError."""
    typed = _TYPED.fullmatch(" ".join(request.POST.get("typed", "")[:40].split()))
    if typed is None:
        raise CountMismatchError
    return int(typed[1].replace(",", ""))


def _is_same_plan(row: Erasure, form: ErasureForm) -> bool:
    """Tell whether the form asks for what the open erasure erases."""
    if (row.scope, row.reason, row.ticket or "") != (
        form.scope,
        form.reason,
        form.ticket,
    ):
        return False
    try:
        before = _parse_before(form.before) if row.before else None
    except InvalidError:
        return False
    name = row.thread.name if row.thread else form.thread
    seq = form.record if row.seq is None else str(row.seq)
    clock = get_clock(row) if row.before else form.clock
    return (name, seq, before, clock) == (
        form.thread,
        form.record,
        row.before,
        form.clock,
    )


def _redirect_to_erasure(visitor: Visitor, erasure: UUID) -> HttpResponse:
    where = {"project": visitor.project.slug, "erasure": erasure}
    return HttpResponseRedirect(reverse("erasure", kwargs=where))


def _render_form(
    request: HttpRequest,
    visitor: Visitor,
    row: Subject,
    form: ErasureForm,
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    context = {
        "subject": row,
        "hint": person_visits.find_hint(visitor, row.id),
        "form": form,
        "scopes": forgetting.SCOPES.items(),
        "reasons": forgetting.REASONS.items(),
        "ticket": eraser.TICKET_PATTERN.pattern,
        "names": subject_lists.list_thread_names(row),
        "under_way": erasure_views.get_open(row.id),
        "problem": refusals.get_error_text(refusal, _PROBLEMS, numbers=True),
    }
    status = refusals.get_status(refusal)
    return privacy_pages.render_page(
        request, visitor, "forget/erasures/new", context, tab="subjects", status=status
    )

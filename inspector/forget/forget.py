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

from inspector.access.access import signed_in
from inspector.forget import erasing, privacy_pages
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
from memoryhub.queries.people import subject_lists
from memoryhub.queries.threads import threads
from memoryhub.services.forget import erasures as eraser
from memoryhub.services.scan import collecting

#: A name, a seq and a ticket are never longer.
_LONGEST = 128
_TYPED = re.compile(r"forget ([0-9][0-9,]{0,18})")
_PROBLEMS: refusals.Texts = {
    "scope": "Choose what is to be forgotten.",
    "reason": "Choose a reason from the list.",
    "ticket": "A ticket is up to 8 capital letters, a hyphen and up to 7 digits.",
    "thread": "That is no thread of this subject's.",
    "before": "A time in the past is wanted, as 2026-01-31T12:00, in UTC.",
    "record": "That is no event of this thread's.",
}
#: What is wrong with what was typed to be looked for again.
_NOT_TYPED = {
    "user_id": "That is not the id of the person who was erased.",
    "texts": "Type more of it: that could stand anywhere.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Hold what was filled in, to be shown again when it does not do."""

    scope: str = Erasure.Scope.SUBJECT
    thread: str = ""
    before: str = ""
    record: str = ""
    reason: str = ""
    ticket: str = ""
    restrict: bool = True

    @classmethod
    def of(cls, sent: QueryDict, *, ticked: bool) -> Form:
        """Read what was sent; `ticked` keeps agents out where nothing is said of it."""
        words = ("thread", "before", "record", "reason", "ticket")
        texts = {word: sent.get(word, "").strip()[:_LONGEST] for word in words}
        scope = sent.get("scope", Erasure.Scope.SUBJECT)
        restrict = sent.get("restrict", "1" if ticked else "0") != "0"
        return cls(scope=scope, restrict=restrict, **texts)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def begin(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Ask what is to be forgotten, and why; a POST counts it and forgets nothing."""
    visitor = privacy_pages.act(request, project)
    row = privacy_pages.find_subject(visitor, subject)
    if request.method != "POST":
        return _form(request, visitor, row, Form.of(request.GET, ticked=True))
    form = Form.of(request.POST, ticked=False)
    try:
        made = _plan(visitor, row, form)
    except ErasureInProgressError as refusal:
        under_way = erasure_views.get_open(row.id)
        if under_way is not None and _same(under_way, form):
            # The same form, sent again: it is one erasure.
            if form.restrict:
                # Of one that is no plan any more its page tells how it stands.
                with suppress(Refusal):
                    eraser.keep_out(under_way, actor=visitor.actor)
            return _to(visitor, under_way.id)
        return _form(request, visitor, row, form, refusal=refusal)
    except Refusal as refusal:
        return _form(request, visitor, row, form, refusal=refusal)
    return _to(visitor, made.id)


@require_post
@signed_in
def confirm(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Erase what the plan says, once its count was typed."""
    visitor = privacy_pages.act(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    token = request.POST.get("token", "")[:512]
    try:
        eraser.confirm(
            row, token=token, count=_typed(request, row), actor=visitor.actor
        )
    except Refusal as refusal:
        # A stale plan was replaced by what there is now.
        fresh = erasures.get_row(visitor.project.id, erasure)
        return erasing.page(request, visitor, fresh, refusal=refusal)
    answer = _to(visitor, erasure)
    answer.headers["Clear-Site-Data"] = '"cache", "storage"'
    return answer


@require_post
@signed_in
def keep_out(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Keep agents out and count the plan anew: the way out of one that is stale."""
    visitor = privacy_pages.act(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    try:
        eraser.keep_out(row, actor=visitor.actor)
    except Refusal as refusal:
        return erasing.page(request, visitor, row, refusal=refusal)
    return _to(visitor, erasure)


@require_post
@signed_in
def recall(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Look again for what a scan had found, once the id was typed again."""
    visitor = privacy_pages.act(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    typed = request.POST.get("user_id", "")[: user_ids.MAX_CHARS]
    try:
        collecting.recall(row, [typed])
    except InvalidError as refusal:
        problem = _NOT_TYPED.get(refusal.loc, "")
        return erasing.page(request, visitor, row, refusal=refusal, problem=problem)
    return _to(visitor, erasure)


@require_post
@signed_in
def cancel(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Drop a plan; what has begun goes on."""
    visitor = privacy_pages.act(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    try:
        eraser.cancel(row, actor=visitor.actor)
    except Refusal as refusal:
        return erasing.page(request, visitor, row, refusal=refusal)
    where = {"project": project, "subject": row.subject_id}
    return HttpResponseRedirect(reverse("subject", kwargs=where))


def _plan(visitor: Visitor, row: Subject, form: Form) -> Erasure:
    of_thread = form.scope in (Erasure.Scope.THREAD, Erasure.Scope.RECORD)
    try:
        return eraser.plan(
            row,
            scope=form.scope,
            thread=_thread(visitor, row, form.thread) if of_thread else None,
            before=_before(form.before) if form.scope == Erasure.Scope.BEFORE else None,
            seq=_seq(form.record) if form.scope == Erasure.Scope.RECORD else None,
            reason=form.reason,
            ticket=form.ticket or None,
            restrict=form.restrict,
            actor=visitor.actor,
        )
    except SeqUnknownError:
        raise InvalidError(loc="record") from None


def _thread(visitor: Visitor, subject: Subject, name: str) -> Thread:
    try:
        return threads.get_thread(visitor.project.id, name, subject=subject.id)
    except NotFoundError:
        raise InvalidError(loc="thread") from None


def _before(text: str) -> datetime:
    """Read a time as a browser's field has it, in UTC. Raises InvalidError."""
    try:
        at = parse_datetime(text)
        if at is not None:
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # no time, or one that UTC has no year for
    raise InvalidError(loc="before")


def _seq(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidError(loc="record")
    return int(text)


def _typed(request: HttpRequest, row: Erasure) -> int:
    """Read the count that was typed behind the word. Raises CountMismatchError."""
    typed = _TYPED.fullmatch(" ".join(request.POST.get("typed", "")[:40].split()))
    if typed is None:
        raise CountMismatchError
    return int(typed[1].replace(",", ""))


def _same(row: Erasure, form: Form) -> bool:
    """Tell whether the open erasure is what this form wants."""
    if (row.scope, row.reason, row.ticket or "") != (
        form.scope,
        form.reason,
        form.ticket,
    ):
        return False
    try:
        before = _before(form.before) if row.before else None
    except InvalidError:
        return False
    name = row.thread.name if row.thread else form.thread
    seq = form.record if row.seq is None else str(row.seq)
    return (name, seq, before) == (form.thread, form.record, row.before)


def _to(visitor: Visitor, erasure: UUID) -> HttpResponse:
    where = {"project": visitor.project.slug, "erasure": erasure}
    return HttpResponseRedirect(reverse("erasure", kwargs=where))


def _form(
    request: HttpRequest,
    visitor: Visitor,
    row: Subject,
    form: Form,
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    context = {
        "subject": row,
        "form": form,
        "scopes": forgetting.SCOPES.items(),
        "reasons": forgetting.REASONS.items(),
        "ticket": eraser.TICKET.pattern,
        "names": subject_lists.list_thread_names(row),
        "under_way": erasure_views.get_open(row.id),
        "problem": refusals.error_text(refusal, _PROBLEMS, numbers=True),
    }
    status = refusals.status_of(refusal)
    return privacy_pages.page(
        request, visitor, "forget/erasures/new", context, tab="subjects", status=status
    )

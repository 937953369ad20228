"""Form by which an operator corrects a fact, and the lines of blocks that say it.

A correction that would change more than the form says is shown before it is made.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.lists import person_visits
from inspector.web import asof, refusals
from memoryhub.errors import InvalidError, Refusal, StaleError, ValueTooLargeError
from memoryhub.kernel.knowledge.facts import MAX_VALUE, is_valid_text
from memoryhub.kernel.state.pages import MAX_BLOCK_BYTES
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge import (
    block_lines,
    blocks,
    corrected_lines,
    facts,
    period_changes,
)
from memoryhub.queries.knowledge.corrected_lines import LineChoice
from memoryhub.queries.knowledge.facts import FactLine, FactStory
from memoryhub.queries.knowledge.period_changes import PeriodChanges
from memoryhub.services.knowledge import corrections, homes
from memoryhub.services.knowledge.corrections import Correction

#: What was wrong with the value: it was never true, or it is no longer.
WRONG, CHANGED = "wrong", "changed"
_TEXTS: Final = {
    "value": f"Give another value, in at most {MAX_VALUE:,} characters.",
    "since": "Choose a day after the old value began to be true, until 2200.",
    "how": "Choose whether the value was never true or has changed.",
    "lines": "The change lies ahead, and blocks say what is true now. Untick their "
    "lines.",
}
_REFUSED: refusals.Texts = {
    StaleError: "A block or the fact was changed after you opened this form, so "
    "nothing was corrected. The lines below are the present ones.",
    ValueTooLargeError: "With the new value a block would have more than "
    f"{MAX_BLOCK_BYTES // 1024} KiB of text, so nothing was corrected.",
}
#: Format of a line in the form: version, number, block.
_LINE = re.compile(r"([0-9]{1,18}):([0-9]{1,6}):(.+)")


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def correct(
    request: HttpRequest, project: str, subject: UUID, fact: int
) -> HttpResponse:
    """Correct a fact and lines of blocks, and redirect to the new fact.

    The fact's page offers to undo the edit.
    """
    visit = person_visits.require_editor(request, project, subject)
    row = visit.subject
    now, posted = clock.now(), request.method == "POST"
    story = facts.get_fact(row, fact, now=now, nth=asof.read_number(request, "nth"))
    begin = story.fact.valid_from.isoformat()
    first = {"value": story.fact.value, "how": WRONG, "since": "", "begin": begin}
    sent = {name: request.POST.get(name, "") for name in first} if posted else first
    problem: Refusal | None = None
    changes: PeriodChanges | None = None
    seen = ""
    if posted:
        try:
            if sent["begin"] not in ("", begin):
                raise StaleError
            correction = _parse_correction(sent, request.POST)
            command = corrections.build_correction(row, story, correction, now=now)
            chosen = period_changes.list_chosen(story, {*correction.periods})
            changes = period_changes.preview_changes(story, command.claims, chosen)
            seen = _name_changes(changes, correction.value, sent["how"], sent["since"])
            if not changes.beyond or request.POST.get("seen") == seen:
                actor, epoch = visit.visitor.actor, row.epoch
                receipt = homes.perform(row, command, actor=actor, epoch=epoch)
                seq = receipt.events[-1].seq
                query = {"fact": seq, "saved": seq}
                return person_visits.redirect_to_page("facts", visit.names, query)
        except Refusal as refusal:
            problem, changes = refusal, None
    loc = problem.loc if isinstance(problem, InvalidError) else ""
    return person_visits.render_page(
        request,
        "inspector/knowledge/facts/correct.html",
        visit,
        {
            "fact": story.fact,
            "sent": sent,
            "most": MAX_VALUE,
            "loc": loc,
            "periods": _list_periods(story, {*request.POST.getlist("period")}),
            "changes": changes,
            "seen": seen,
            **_list_lines(story, request.POST, now=now),
            "problem": _TEXTS.get(loc)
            or refusals.get_error_text(problem, _REFUSED, numbers=True),
        },
        status=refusals.get_status(problem),
    )


def _list_lines(story: FactStory, form: QueryDict, *, now: datetime) -> dict[str, Any]:
    """List the lines of blocks that the form offers, and those that it only names."""
    views = blocks.list_blocks(story.home)
    lines = corrected_lines.list_correctable_lines(story, views, at=now)
    offered, ticked = {*form.getlist("offered")}, {*form.getlist("line")}
    return {
        "offered": [
            (name, line, name in ticked if name in offered else line.is_sure)
            for line in lines
            if line.obstacle is None
            for name in (_name_line(line.place),)
        ],
        "others": [line for line in lines if line.obstacle],
        "naming": block_lines.list_naming_lines(
            views if story.fact.cardinality == "single" else (),
            story.fact.predicate,
            {(line.place.block, line.place.line) for line in lines},
        ),
    }


def _name_line(place: LineChoice) -> str:
    """Name a line in the form."""
    return f"{place.version}:{place.line}:{place.block}"


def _parse_line(name: str) -> LineChoice:
    """Parse the name of a line. Raises StaleError for a malformed name."""
    found = _LINE.fullmatch(name)
    if found is None:
        raise StaleError
    return LineChoice(found[3], int(found[1]), int(found[2]))


def _list_periods(
    story: FactStory, ticked: set[str]
) -> list[tuple[str, FactLine, bool]]:
    """List the other periods of the value, each with its name and whether ticked."""
    others = {*period_changes.list_others(story)[-period_changes.OFFERED :]}
    return [
        (name, line, name in ticked)
        for line, fact in zip(story.timeline, story.unopened.facts, strict=True)
        if fact in others
        for name in (line.valid_from.isoformat(),)
    ]


def _name_changes(changes: PeriodChanges, *sent: str) -> str:
    """Name what a visitor was shown, for what was sent."""
    shown = repr((changes.before, sent)).encode()
    return hashlib.blake2b(shown, digest_size=16).hexdigest()


def _parse_correction(sent: Mapping[str, str], form: QueryDict) -> Correction:
    """Parse the form. Raises InvalidError, which names the field, and StaleError."""
    # Browsers send CRLF line ends.
    value = sent["value"].replace("\r\n", "\n").strip()
    if not is_valid_text(value, MAX_VALUE, lines=True):
        raise InvalidError(loc="value")
    if sent["how"] not in (WRONG, CHANGED):
        raise InvalidError(loc="how")
    since, begins = None, frozenset[datetime]()
    if sent["how"] == CHANGED:
        text = sent["since"]
        since = asof.parse_instant(text, "since") if text else clock.now()
    else:
        begins = frozenset(map(_parse_begin, form.getlist("period")))
    return Correction(
        value=value,
        since=since,
        lines=(*map(_parse_line, form.getlist("line")),),
        periods=begins,
    )


def _parse_begin(text: str) -> datetime:
    """Parse the name of a period. Raises StaleError for a malformed name."""
    try:
        begin = datetime.fromisoformat(text)
    except ValueError:
        raise StaleError from None
    if begin.tzinfo is None:
        raise StaleError
    return begin

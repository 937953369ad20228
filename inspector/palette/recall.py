"""Recall: the answer that an agent's query to a subject's memory would get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.http.request import QueryDict
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.lists import person_visits
from inspector.palette import contents
from inspector.palette.contents import HitLine
from inspector.web import asof, refusals
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.search.parsing import MOST_CHARACTERS, Filters
from memoryhub.kernel.text import strict_json
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.search import searching
from memoryhub.queries.search.searching import KINDS, SearchRequest

#: Most hits shown.
MAX_HITS = 20
#: Kinds that the page puts in this order, in the places that they have.
_SWAPPED = ("fact", "task")
_TEXTS: refusals.Texts = {
    "query": f"Type what to search for, in at most {MOST_CHARACTERS:,} characters.",
    "kinds": "Choose kinds from the list.",
    "valid_at": "Choose a time from 1970 to 2200 at which facts are true.",
    "known_at": "Choose a time from 1970 to 2200 at which facts are known.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecallForm:
    """The recall form as submitted."""

    query: str = ""
    kinds: tuple[str, ...] = ()
    valid_at: str = ""
    known_at: str = ""
    ended: bool = False

    @classmethod
    def from_post(cls, sent: QueryDict) -> _RecallForm:
        return cls(
            query=sent.get("query", "").strip(),
            kinds=tuple(sent.getlist("kinds")),
            valid_at=sent.get("valid_at", ""),
            known_at=sent.get("known_at", ""),
            ended="ended" in sent,
        )

    def build_request(self, now: datetime) -> SearchRequest:
        """Build the search request. Raises InvalidError, which names the field."""
        if not self.query:
            raise InvalidError(loc="query")
        if not {*self.kinds} <= {*KINDS}:
            raise InvalidError(loc="kinds")
        filters = Filters(kinds=frozenset(self.kinds))
        found = SearchRequest.parse(self.query, filters=filters, limit=MAX_HITS)
        where = FactFilter(
            valid_at=self._parse_instant("valid_at") or now,
            known_at=self._parse_instant("known_at"),
            ended=self.ended,
        )
        return replace(found, where=where)

    def render_call(self) -> str:
        """Render the JSON body of the same API call, for use in single quotes."""
        given: dict[str, Any] = {
            "query": self.query or "…",
            "kinds": [*self.kinds],
            "valid_at": _format_instant(self._parse_instant("valid_at")),
            "known_at": _format_instant(self._parse_instant("known_at")),
            "ended": self.ended,
            "limit": MAX_HITS,
        }
        plain = {name: value for name, value in given.items() if value}
        return strict_json.dump_stored(plain).decode().replace("'", r"\u0027")

    def _parse_instant(self, name: str) -> datetime | None:
        text: str = getattr(self, name)
        return asof.parse_instant(text, name) if text else None


def _format_instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedHit:
    """A hit, with the hits that have the same text."""

    line: HitLine
    #: Best first.
    copies: tuple[HitLine, ...]


def fold_hits(lines: Sequence[HitLine]) -> list[FoldedHit]:
    """Fold hits of one text into the best, and put facts before tasks.

    A task repeats what a thread is about, which is no answer where a fact is one. Other
    kinds keep their places.
    """
    by_text = dict[tuple[str, int], list[HitLine]]()
    for line in lines:
        by_text.setdefault((line.hit.kind, line.hit.text_hash), []).append(line)
    found = [FoldedHit(line=one, copies=(*more,)) for one, *more in by_text.values()]
    places = [n for n, each in enumerate(found) if each.line.hit.kind in _SWAPPED]
    swapped = [found[n] for n in places]
    swapped.sort(key=lambda each: _SWAPPED.index(each.line.hit.kind))
    for place, each in zip(places, swapped, strict=True):
        found[place] = each
    return found


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def show(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Show the form and the hits; the form is posted, so that no log has the words."""
    visit = person_visits.find(request, project, subject)
    posted = request.method == "POST"
    form = _RecallForm.from_post(request.POST) if posted else _RecallForm()
    problem: Refusal | None = None
    context: dict[str, Any] = {"result": None, "call": _RecallForm().render_call()}
    if posted:
        try:
            wanted = form.build_request(clock.now())
            result = searching.recall(visit.subject, wanted)
        except InvalidError as refusal:
            problem = refusal
        else:
            lines = contents.list_recalled_hits(visit.visitor, result)
            folded = fold_hits(lines)
            context = {"result": result, "lines": lines, "folded": folded}
            context["call"] = form.render_call()
    return person_visits.render_page(
        request,
        "inspector/palette/recall/show.html",
        visit,
        {
            **context,
            "form": form,
            "kinds": KINDS,
            "longest": MOST_CHARACTERS,
            "problem": refusals.get_error_text(problem, _TEXTS),
        },
        status=refusals.get_status(problem),
    )

"""Recall: what an agent is told that asks a subject's memory, with its own query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.request import QueryDict
from django.views.decorators.http import require_http_methods

from inspector.access.access import signed_in
from inspector.lists import visits
from inspector.palette import contents
from inspector.web import asof, refusals
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.search.parsing import MOST_CHARACTERS, Filters
from memoryhub.kernel.text import strict_json
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.search import searching
from memoryhub.queries.search.searching import KINDS, SearchRequest

#: Hits that are shown.
SHOWN = 20
_TEXTS: refusals.Texts = {
    "query": f"Type what is looked for, in at most {MOST_CHARACTERS:,} characters.",
    "kinds": "Choose kinds from the list.",
    "valid_at": "That is no time at which a fact can hold: 1970 to 2200.",
    "known_at": "That is no time at which it can be known: 1970 to 2200.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """The query as it was typed."""

    query: str = ""
    kinds: tuple[str, ...] = ()
    valid_at: str = ""
    known_at: str = ""
    ended: bool = False

    @classmethod
    def of_sent(cls, sent: QueryDict) -> _Form:
        return cls(
            query=sent.get("query", "").strip(),
            kinds=tuple(sent.getlist("kinds")),
            valid_at=sent.get("valid_at", ""),
            known_at=sent.get("known_at", ""),
            ended="ended" in sent,
        )

    def request(self, now: datetime) -> SearchRequest:
        """Read it. Raises InvalidError, which names the field."""
        if not self.query:
            raise InvalidError(loc="query")
        if not {*self.kinds} <= {*KINDS}:
            raise InvalidError(loc="kinds")
        filters = Filters(kinds=frozenset(self.kinds))
        found = SearchRequest.parse(self.query, filters=filters, limit=SHOWN)
        where = FactFilter(
            valid_at=self._instant("valid_at") or now,
            known_at=self._instant("known_at"),
            ended=self.ended,
        )
        return replace(found, where=where)

    def call(self) -> str:
        """Word the body of the call that asks for the same, within single quotes."""
        given: dict[str, Any] = {
            "query": self.query or "…",
            "kinds": [*self.kinds],
            "valid_at": _stamp(self._instant("valid_at")),
            "known_at": _stamp(self._instant("known_at")),
            "ended": self.ended,
            "limit": SHOWN,
        }
        plain = {name: value for name, value in given.items() if value}
        return strict_json.as_sent(plain).decode().replace("'", r"\u0027")

    def _instant(self, name: str) -> datetime | None:
        text: str = getattr(self, name)
        return asof.instant(text, name) if text else None


def _stamp(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show the form, and what was found; it is posted, so that no log has the words."""
    visit = visits.find(request, project, thread)
    posted = request.method == "POST"
    form = _Form.of_sent(request.POST) if posted else _Form()
    problem: Refusal | None = None
    context: dict[str, Any] = {"result": None, "call": _Form().call()}
    if posted:
        try:
            wanted = form.request(clock.now())
            result = searching.recall(visit.row.subject, wanted)
        except InvalidError as refusal:
            problem = refusal
        else:
            lines = contents.list_recalled(visit.visitor, result)
            context = {"result": result, "lines": lines, "call": form.call()}
    return visits.page(
        request,
        "inspector/palette/recall/show.html",
        visit,
        {
            **context,
            "form": form,
            "kinds": KINDS,
            "longest": MOST_CHARACTERS,
            "problem": refusals.error_text(problem, _TEXTS),
        },
        status=refusals.status_of(problem),
    )

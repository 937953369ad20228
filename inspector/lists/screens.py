"""Screens: one declaration per list.

The declaration yields the list's page, exports, URLs, search form and pushed panel.
Reads of content are audited as on every page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in, require_visitor
from inspector.drawing.scenes import Glance, Panel, ThreadScene
from inspector.lists import person_visits, visits
from inspector.lists.person_visits import PersonVisit
from inspector.lists.visits import ThreadMoment, Visit
from inspector.web import asof, exports, search, shell
from inspector.web.records import Record
from inspector.web.search import Keys, ParsedSearch
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError
from memoryhub.models.server.clock import clock
from memoryhub.queries.lists.cursors import ListBatch, iter_batches

#: Tabs of a thread, in order.
TABS = ("replay", "turns", "paging", "memory", "branches")

#: Records of a batch of an export.
EXPORT_BATCH = 200

Context = dict[str, Any]
#: A visitor of a project, or a thread as of a moment.
PlaceT = TypeVar("PlaceT")
#: The covariant form of `PlaceT`.
PlaceT_co = TypeVar("PlaceT_co", covariant=True)
#: The contravariant form of `PlaceT`.
PlaceT_contra = TypeVar("PlaceT_contra", contravariant=True)
LineT = TypeVar("LineT")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCount:
    """The number of lines that a list shows, and the total."""

    shown: int
    #: None when not counted.
    total: int | None = None
    #: Whether there are more lines than `total`, or than `shown` without a total.
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchChip:
    """A term of the present search, and the URL's query without the term."""

    word: str
    rest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest(Generic[PlaceT_co]):
    """A request for a list: the thread or project, and the parsed search."""

    request: HttpRequest
    where: PlaceT_co
    parsed: ParsedSearch
    now: datetime

    @property
    def after(self) -> str | None:
        """Return the URL's cursor; None for the first batch."""
        return self.request.GET.get("after") or None

    @property
    def limit(self) -> int:
        """Return the number of lines shown at once. Raises InvalidError."""
        return asof.read_limit(self.request)

    @property
    def content(self) -> bool:
        """Tell whether the URL asks for an export with content."""
        return self.request.GET.get("content") == "1"

    def query(self, **more: str | int | None) -> str:
        """Build the URL's query of this list and moment, with further parameters."""
        here = self.where
        at_seq = None
        if isinstance(here, ThreadMoment | PersonVisit):
            at_seq = here.moment.at_seq
        return self.parsed.query(**{"at_seq": at_seq, **more})

    def list_chips(self) -> list[SearchChip]:
        """List the search's terms, each with the query that leaves the term out."""
        words = self.parsed.words
        return [
            SearchChip(word=word, rest=self.query(q=" ".join(_leave_out(words, place))))
            for place, word in enumerate(words)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenExport(Generic[PlaceT_contra, LineT]):
    """Export of a list: one batch as JSON, or all matching lines as CSV or NDJSON."""

    #: Fields of a record in order; `content_fields` are added on request.
    fields: tuple[str, ...]
    content_fields: tuple[str, ...] = ()
    #: Builds a line's record with all fields, from the thread's or project's name.
    record: Callable[[str, LineT], Record]
    #: Returns the lines after a cursor, at most the given number.
    batch: Callable[[ListRequest[PlaceT_contra], str | None, int], ListBatch[LineT]]
    #: Returns all matching lines, if there is a better way than batch by batch.
    lines: Callable[[ListRequest[PlaceT_contra]], Iterable[Sequence[LineT]]] | None = (
        None
    )
    #: Records of a JSON batch; None for the URL's limit.
    size: int | None = EXPORT_BATCH
    #: Raises the refusal of a visitor who may see the list, but not export it.
    admit: Callable[[PlaceT_contra], None] = lambda _: None

    def answer(
        self, ask: ListRequest[PlaceT_contra], kind: str, *, title: str, name: str
    ) -> HttpResponseBase:
        """Send the export of the URL that ends in `kind`."""
        heading = self.fields + (self.content_fields if ask.content else ())
        return exports.answer(
            ask.request,
            kind,
            f"{title}-{name}",
            heading=heading,
            record=lambda line: _pick_fields(self.record(title, line), heading),
            part=lambda: self.batch(ask, ask.after, self.size or ask.limit),
            parts=lambda: self._iter_all(ask),
        )

    def _iter_all(self, ask: ListRequest[PlaceT_contra]) -> Iterable[Sequence[LineT]]:
        if self.lines is not None:
            return self.lines(ask)
        return iter_batches(lambda after: self.batch(ask, after, EXPORT_BATCH))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenScope(Generic[PlaceT]):
    """Common parts of the lists of a thread, or of the lists of a project."""

    #: Prefix of the lists' URLs.
    prefix: str
    #: Returns the visitor or visit. Raises the refusal of a visitor who may not enter.
    enter: Callable[..., PlaceT]
    page: Callable[..., HttpResponse]
    #: URL arguments of the prefix; the last one names export files.
    names: Callable[[PlaceT], dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen(Generic[PlaceT]):
    """Declaration of a list, or of a panel that has a page."""

    #: Folder of templates: `memory/keys`; the last part names URL, route and exports.
    folder: str
    scope: ScreenScope[PlaceT]
    #: Builds the context of the requested lines; default: the panel's or export's.
    lines: Callable[[ListRequest[PlaceT]], Context] | None = None
    #: Builds the rest of the page's context, also when the search has an error.
    around: Callable[[ListRequest[PlaceT]], Context] = lambda _: {}
    #: Title of tab and page, if it differs from the name.
    label: str = ""
    #: Tab of the thread that has the list, of `TABS`; empty for a list of a project.
    tab: str = ""
    #: Pushed panel, shown on the page until the URL asks for other lines.
    panel: Panel | None = None
    #: Parameters of the URL that, like a search, ask for lines beyond the panel.
    beyond: tuple[str, ...] = ("after", "limit")
    #: Parses the URL's search and options. Raises InvalidError.
    read: Callable[[HttpRequest], ParsedSearch] = lambda _: ParsedSearch(text="")
    #: Example searches, shown as links.
    examples: tuple[str, ...] = ()
    export: ScreenExport[PlaceT, Any] | None = None
    #: Partial template of the difference of two moments, on the comparing page.
    difference: str = ""
    glance: Glance | None = None

    @property
    def name(self) -> str:
        return self.folder.rpartition("/")[2].replace("_", "-")

    @property
    def title(self) -> str:
        return self.label or self.name.replace("-", " ").capitalize()

    @property
    def row(self) -> str:
        """Return the path of the partial template of a table row."""
        return f"inspector/{self.folder}/_row.html"

    def build_url_patterns(self) -> Iterator[URLPattern]:
        """Build the URL patterns, with the routes `name` and `name-export`."""
        where = f"{self.scope.prefix}/{self.name}"
        yield path(where, require_safe(require_signed_in(self._show)), name=self.name)
        if self.export is not None:
            view = require_safe(require_signed_in(self._export))
            yield path(f"{where}.<format:kind>", view, name=f"{self.name}-export")

    def read_request(self, request: HttpRequest, where: PlaceT) -> ListRequest[PlaceT]:
        """Read the URL as a request for the list. Raises InvalidError."""
        return ListRequest(
            request=request, where=where, parsed=self.read(request), now=clock.now()
        )

    def render_page(
        self, ask: ListRequest[PlaceT], *, status: int = 200, **more: Any
    ) -> HttpResponse:
        """Render the list with further context; 422 if the search has an error."""
        error = ask.parsed.error
        return self.scope.page(
            ask.request,
            [f"inspector/{self.folder}/index.html", "inspector/threads/screen.html"],
            ask.where,
            self._build_shared(ask) | ({} if error else self._build_lines(ask)) | more,
            status=422 if error else status,
        )

    def _show(self, request: HttpRequest, /, **names: str) -> HttpResponseBase:
        return self.render_page(
            self.read_request(request, self.scope.enter(request, **names))
        )

    def _export(
        self, request: HttpRequest, /, *, kind: str, **names: str
    ) -> HttpResponseBase:
        ask = self.read_request(request, self.scope.enter(request, **names))
        assert self.export is not None
        self.export.admit(ask.where)
        if ask.parsed.error:
            return exports.send_refusal(ask.parsed.error, status=422)
        *_, title = self.scope.names(ask.where).values()
        return self.export.answer(ask, kind, title=title, name=self.name)

    def _build_shared(self, ask: ListRequest[PlaceT]) -> Context:
        context: Context = {
            "screen": self,
            "parsed": ask.parsed,
            "examples": self.examples,
            "search": ask.parsed.query(),
            "chips": ask.list_chips(),
            "panel": self._is_live(ask),
            "standing": self._get_standing(ask),
        }
        if self.export is not None and not ask.parsed.error:
            here = reverse(self.name, kwargs=self.scope.names(ask.where))
            context["exported"] = exports.list_links(here, ask.query())
        return context | self.around(ask)

    def _build_lines(self, ask: ListRequest[PlaceT]) -> Context:
        if self.panel and isinstance(ask.where, Visit) and self._is_live(ask):
            return self.panel.context(ask.where.scene)
        if self.lines is not None:
            return self.lines(ask)
        if self.export is None:
            return {}
        return build_list_context(ask, self.export.batch(ask, ask.after, ask.limit))

    def _is_live(self, ask: ListRequest[PlaceT]) -> bool:
        """Tell whether the page shows its panel: the URL asks for no other lines."""
        if self.panel is None or self.lines is None:
            return self.panel is not None
        beyond = any(ask.request.GET.get(word) for word in self.beyond)
        # An option may be the number 0.
        chosen = {*ask.parsed.options.values()} - {"", None}
        return not (beyond or ask.parsed.text or chosen)

    def _get_standing(self, ask: ListRequest[PlaceT]) -> str:
        """Return `list` if the lines stand still while the thread moves; else empty."""
        here = ask.where
        if (
            not isinstance(here, ThreadMoment)
            or not here.moment.live
            or self._is_live(ask)
        ):
            return ""
        return "list"


def build_list_context(ask: ListRequest[PlaceT], found: ListBatch[Any]) -> Context:
    """Build the context of a plain list's template: a batch, and the next link."""
    return {
        "listed": found.items,
        "more": ask.query(after=found.next) if found.next else "",
        "continued": ask.after is not None,
        "count": LineCount(shown=len(found.items), more=found.next is not None),
    }


def build_newest_panel(
    folder: str,
    lines: Callable[[ListRequest[ThreadMoment]], Context],
    *,
    read: Callable[[HttpRequest], ParsedSearch] = lambda _: ParsedSearch(text=""),
    order: Literal["first", "last"] = "first",
) -> Panel:
    """Build the panel of a list without a search: the newest lines as they come.

    `order` tells whether the partial `_list.html` has the newest lines first or last.
    """
    name = f"{folder.rpartition('/')[2]}-list"
    about = {
        "name": name,
        "template": f"inspector/{folder}/_list.html",
        "newest": order,
    }

    def build_context(scene: ThreadScene) -> Context:
        nothing = HttpRequest()
        ask = ListRequest(
            request=nothing,
            where=ThreadMoment.from_scene(scene),
            parsed=read(nothing),
            now=clock.now(),
        )
        return {"list": about, "parsed": ask.parsed, **lines(ask)}

    return Panel(
        template="inspector/lists/_newest.html", context=build_context, name=name
    )


def read_choice(name: str, words: Sequence[str], request: HttpRequest) -> ParsedSearch:
    """Read a parameter that is one of these words or empty. Raises InvalidError."""
    word = request.GET.get(name, "")
    if word and word not in words:
        raise InvalidError(loc=name)
    return ParsedSearch(text="", options={name: word})


def build_search_reader(
    keys: Keys, *, bare: str
) -> Callable[[HttpRequest], ParsedSearch]:
    """Build a reader of searches by these keys; a bare word begins `bare`'s value."""
    return lambda request: search.parse_search(
        request.GET.get("q", ""), keys, bare=bare
    )


def _leave_out(words: Sequence[str], place: int) -> Sequence[str]:
    return [*words[:place], *words[place + 1 :]]


def _pick_fields(record: Record, fields: Sequence[str]) -> Record:
    return {name: value for name, value in record.items() if name in fields}


def build_project_scope(
    section: str, *, enter: Callable[..., Visitor] = require_visitor, **page: Any
) -> ScreenScope[Visitor]:
    """Build the scope of a project's lists, in a section of the navigation."""

    def show(
        request: HttpRequest,
        template: list[str],
        visitor: Visitor,
        context: Context,
        **more: Any,
    ) -> HttpResponse:
        about = {"visitor": visitor, "section": section, **page, **more}
        return shell.render_page(request, template, context, **about)

    return ScreenScope(
        prefix="p/<project:project>",
        enter=enter,
        page=show,
        names=lambda visitor: {"project": visitor.project.slug},
    )


#: Scope of a thread's lists, as of any event.
THREAD = ScreenScope(
    prefix="p/<project:project>/threads/<name:thread>",
    enter=visits.find,
    page=visits.render_page,
    names=lambda visit: {
        "project": visit.visitor.project.slug,
        "thread": visit.row.name,
    },
)
#: Scope of the lists of a person's memory, as of any event of the home thread.
PERSON = ScreenScope(
    prefix="p/<project:project>/subjects/<uuid:subject>",
    enter=person_visits.find,
    page=person_visits.render_page,
    names=lambda visit: visit.names,
)

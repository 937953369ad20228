"""Screens: one declaration per list.

Its page, its exports and their URLs, the form of its search and the panel that is
pushed follow from it; whoever is shown content is noted as on every page.
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

from inspector.access.access import find_visitor, signed_in
from inspector.drawing.scenes import Glance, Panel, Scene
from inspector.lists import visits
from inspector.lists.visits import Place, Visit
from inspector.web import asof, exports, search, shell
from inspector.web.records import Record
from inspector.web.search import Keys, ParsedSearch
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError
from memoryhub.models.server.clock import clock
from memoryhub.queries.lists.cursors import Batch, walk

#: The tabs of a thread, in their order.
TABS = ("replay", "turns", "paging", "memory", "branches")

#: Records of a batch of an export.
CHUNK = 200

Context = dict[str, Any]
#: A project as somebody may see it, or a thread as of a moment.
Where = TypeVar("Where")
#: The same, where it is only read.
Here_co = TypeVar("Here_co", covariant=True)
#: The same, where it is only taken.
Taken_contra = TypeVar("Taken_contra", contravariant=True)
Line = TypeVar("Line")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Hold how many lines a list shows, and of how many."""

    shown: int
    #: None where nobody counted.
    total: int | None = None
    #: There are more than `total`, or than are shown.
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest(Generic[Here_co]):
    """Hold what a request wants of a list: of which thread or project, which lines."""

    request: HttpRequest
    where: Here_co
    parsed: ParsedSearch
    now: datetime

    @property
    def after(self) -> str | None:
        """Read the cursor; None for the first batch."""
        return self.request.GET.get("after") or None

    @property
    def limit(self) -> int:
        """Read how many lines are shown at once. Raises InvalidError."""
        return asof.limit(self.request)

    @property
    def content(self) -> bool:
        """Tell whether an export is wanted with its texts."""
        return self.request.GET.get("content") == "1"

    def query(self, **more: str | int | None) -> str:
        """Word this list as of this moment, as it stands behind the `?`."""
        here = self.where
        at_seq = here.moment.at_seq if isinstance(here, Place) else None
        return self.parsed.query(at_seq=at_seq, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export(Generic[Taken_contra, Line]):
    """Send a list as data: one batch as JSON, or all that matches as CSV or NDJSON."""

    #: The fields of a record in their order, and those that are added on request.
    fields: tuple[str, ...]
    content_fields: tuple[str, ...] = ()
    #: A line with all its fields; takes the name of the thread or project as well.
    record: Callable[[str, Line], Record]
    #: The lines after a cursor, at most so many.
    batch: Callable[[ListRequest[Taken_contra], str | None, int], Batch[Line]]
    #: All that match, where there is a better way than batch by batch.
    lines: Callable[[ListRequest[Taken_contra]], Iterable[Sequence[Line]]] | None = None
    #: Records of a batch as JSON; None for as many as the URL asks for.
    size: int | None = CHUNK

    def answer(
        self, ask: ListRequest[Taken_contra], kind: str, *, title: str, name: str
    ) -> HttpResponseBase:
        """Send what the URL that ends in `kind` asks for."""
        heading = self.fields + (self.content_fields if ask.content else ())
        return exports.answer(
            ask.request,
            kind,
            f"{title}-{name}",
            heading=heading,
            record=lambda line: _pick(self.record(title, line), heading),
            part=lambda: self.batch(ask, ask.after, self.size or ask.limit),
            parts=lambda: self._all(ask),
        )

    def _all(self, ask: ListRequest[Taken_contra]) -> Iterable[Sequence[Line]]:
        if self.lines is not None:
            return self.lines(ask)
        return walk(lambda after: self.batch(ask, after, CHUNK))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope(Generic[Where]):
    """Declare what the lists of a thread, or those of a project, have in common."""

    #: Of their addresses.
    prefix: str
    #: Raises what keeps somebody out.
    enter: Callable[..., Where]
    page: Callable[..., HttpResponse]
    #: What the prefix names; exports are named after the last.
    names: Callable[[Where], dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen(Generic[Where]):
    """Declare a list, or a panel that has a page."""

    #: Of its templates: `memory/keys`; the last part names address, route and exports.
    folder: str
    scope: Scope[Where]
    #: The lines that are asked for; without it the panel or the export's.
    lines: Callable[[ListRequest[Where]], Context] | None = None
    #: What else stands on the page, also where a search can't be read.
    around: Callable[[ListRequest[Where]], Context] = lambda _: {}
    #: Its tab and its page are called so, if not by its name.
    label: str = ""
    #: The tab of its thread that leads to it, of `TABS`; empty for a list of a project.
    tab: str = ""
    #: What is pushed, and stands on the page until more is asked for.
    panel: Panel | None = None
    #: Words of the URL that ask for more than the panel, beside a search.
    beyond: tuple[str, ...] = ("after", "limit")
    #: Which lines the URL asks for. Raises InvalidError.
    read: Callable[[HttpRequest], ParsedSearch] = lambda _: ParsedSearch(text="")
    #: Searches that are a click away.
    examples: tuple[str, ...] = ()
    export: Export[Where, Any] | None = None
    #: The partial of how two moments of it differ, on the page that compares them.
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
        """Name the partial of a line of its table."""
        return f"inspector/{self.folder}/_row.html"

    def patterns(self) -> Iterator[URLPattern]:
        """Make its addresses, by the routes `name` and `name-export`."""
        where = f"{self.scope.prefix}/{self.name}"
        yield path(where, require_safe(signed_in(self._index)), name=self.name)
        if self.export is not None:
            view = require_safe(signed_in(self._export))
            yield path(f"{where}.<format:kind>", view, name=f"{self.name}-export")

    def ask(self, request: HttpRequest, where: Where) -> ListRequest[Where]:
        """Read what the URL asks of the list. Raises InvalidError."""
        return ListRequest(
            request=request, where=where, parsed=self.read(request), now=clock.now()
        )

    def page(
        self, ask: ListRequest[Where], *, status: int = 200, **more: Any
    ) -> HttpResponse:
        """Show the list, with more of a context; 422 if its search can't be read."""
        error = ask.parsed.error
        return self.scope.page(
            ask.request,
            [f"inspector/{self.folder}/index.html", "inspector/threads/screen.html"],
            ask.where,
            self._shared(ask) | ({} if error else self._lines(ask)) | more,
            status=422 if error else status,
        )

    def _index(self, request: HttpRequest, /, **names: str) -> HttpResponseBase:
        return self.page(self.ask(request, self.scope.enter(request, **names)))

    def _export(
        self, request: HttpRequest, /, *, kind: str, **names: str
    ) -> HttpResponseBase:
        ask = self.ask(request, self.scope.enter(request, **names))
        assert self.export is not None
        if ask.parsed.error:
            return exports.refused(ask.parsed.error, status=422)
        *_, title = self.scope.names(ask.where).values()
        return self.export.answer(ask, kind, title=title, name=self.name)

    def _shared(self, ask: ListRequest[Where]) -> Context:
        context: Context = {
            "screen": self,
            "parsed": ask.parsed,
            "examples": self.examples,
            "search": ask.parsed.query(),
            "panel": self._live(ask),
            "standing": self._standing(ask),
        }
        if self.export is not None and not ask.parsed.error:
            here = reverse(self.name, kwargs=self.scope.names(ask.where))
            context["exported"] = exports.links(here, ask.query())
        return context | self.around(ask)

    def _lines(self, ask: ListRequest[Where]) -> Context:
        if self.panel and isinstance(ask.where, Visit) and self._live(ask):
            return self.panel.context(ask.where.scene)
        if self.lines is not None:
            return self.lines(ask)
        if self.export is None:
            return {}
        return list_context(ask, self.export.batch(ask, ask.after, ask.limit))

    def _live(self, ask: ListRequest[Where]) -> bool:
        """Tell whether the page is its panel, and no other lines are wanted."""
        if self.panel is None or self.lines is None:
            return self.panel is not None
        beyond = any(ask.request.GET.get(word) for word in self.beyond)
        # A number that is asked for may be 0.
        chosen = {*ask.parsed.options.values()} - {"", None}
        return not (beyond or ask.parsed.text or chosen)

    def _standing(self, ask: ListRequest[Where]) -> str:
        """Name what stands still while its thread moves; empty if a panel moves it."""
        here = ask.where
        if not isinstance(here, Place) or not here.moment.live or self._live(ask):
            return ""
        return "list"


def list_context(ask: ListRequest[Where], found: Batch[Any]) -> Context:
    """Gather what the template of a plain list shows: a batch, and how it goes on."""
    return {
        "listed": found.items,
        "more": ask.query(after=found.next) if found.next else "",
        "continued": ask.after is not None,
        "count": Count(shown=len(found.items), more=found.next is not None),
    }


def newest(
    folder: str,
    lines: Callable[[ListRequest[Place]], Context],
    *,
    read: Callable[[HttpRequest], ParsedSearch] = lambda _: ParsedSearch(text=""),
    order: Literal["first", "last"] = "first",
) -> Panel:
    """Make the panel of a list that nothing is asked of: its newest lines as they come.

    They stand first or last in it, as its partial `_list.html` draws them.
    """
    name = f"{folder.rpartition('/')[2]}-list"
    about = {
        "name": name,
        "template": f"inspector/{folder}/_list.html",
        "newest": order,
    }

    def context(scene: Scene) -> Context:
        nothing = HttpRequest()
        ask = ListRequest(
            request=nothing,
            where=Place.of_scene(scene),
            parsed=read(nothing),
            now=clock.now(),
        )
        return {"list": about, "parsed": ask.parsed, **lines(ask)}

    return Panel(template="inspector/lists/_newest.html", context=context, name=name)


def chosen(name: str, words: Sequence[str], request: HttpRequest) -> ParsedSearch:
    """Read one of these words, or none. Raises InvalidError."""
    word = request.GET.get(name, "")
    if word and word not in words:
        raise InvalidError(loc=name)
    return ParsedSearch(text="", options={name: word})


def searched(keys: Keys, *, bare: str) -> Callable[[HttpRequest], ParsedSearch]:
    """Read a search by these keys; a word without one begins what `bare` holds."""
    return lambda request: search.parse_search(
        request.GET.get("q", ""), keys, bare=bare
    )


def _pick(record: Record, fields: Sequence[str]) -> Record:
    return {name: value for name, value in record.items() if name in fields}


def project_scope(
    section: str, *, enter: Callable[..., Visitor] = find_visitor, **page: Any
) -> Scope[Visitor]:
    """Declare lists of a project, in a section of its navigation."""

    def show(
        request: HttpRequest,
        template: list[str],
        visitor: Visitor,
        context: Context,
        **more: Any,
    ) -> HttpResponse:
        about = {"visitor": visitor, "section": section, **page, **more}
        return shell.page(request, template, context, **about)

    return Scope(
        prefix="p/<project:project>",
        enter=enter,
        page=show,
        names=lambda visitor: {"project": visitor.project.slug},
    )


#: Lists of a thread, as of any event.
THREAD = Scope(
    prefix="p/<project:project>/threads/<name:thread>",
    enter=visits.find,
    page=visits.page,
    names=lambda visit: {
        "project": visit.visitor.project.slug,
        "thread": visit.row.name,
    },
)

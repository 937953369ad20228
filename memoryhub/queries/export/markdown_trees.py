"""Markdown trees: a subject's present memory as files for people and other tools.

A rendering of what a bundle reads: each thread's events once, and the thread's state
as of the cut. Not signed, and without history, so that no hub can import the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, groupby, islice
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import orjson

from memoryhub.journal import texts
from memoryhub.journal.log.event_lines import BundleLine
from memoryhub.kernel.context.opened import get_slot_body
from memoryhub.kernel.knowledge.derivation import Fact
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.kernel.state.events import RunRecorded, SlotAppended
from memoryhub.kernel.state.observing import Observation
from memoryhub.kernel.state.pages import BLOCK, is_observation
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.names import HOME
from memoryhub.kernel.threads.slots import parse_agent_time
from memoryhub.models.threads import Thread
from memoryhub.queries import nouns
from memoryhub.queries.export import (
    bundle_events,
    bundle_states,
    bundle_texts,
    bundles,
)
from memoryhub.queries.export.bundle_cuts import BundleCut, ThreadCut
from memoryhub.queries.export.bundle_files import Chunk, ZipArchive, join_lines
from memoryhub.queries.export.markdown_texts import (
    ERASED,
    encode_file_name,
    format_time,
    render_block,
    render_code,
    render_field,
    render_record,
    render_value,
)
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import FactLine
from memoryhub.queries.paging import page_states
from memoryhub.queries.paging.page_states import PageRecord
from memoryhub.queries.replay.state_files import StateFile

#: Pages and observations whose texts are opened at once.
BATCH: Final = 16
#: Files of a thread with a record for each line of a bundle's file.
_RECORDS: Final = tuple(
    file for file in nouns.NOUNS if file not in (facts.STATES, page_states.STATES)
)
#: Field of a record with content that every record has until the content is erased.
_CONTENT: Final = {"notes": "text", "keys": "value"}
_README: Final = """\
# A person's memory

These files hold what is remembered of one person, `{subject}`, as of {taken}:
{threads:,} threads.

| file | holds |
|---|---|
| `threads.md` | the threads, each with its name, labels and settings |
| `threads/THREAD.md` | the messages of a thread, oldest first, and what was erased |
| `facts.md` | what is known about the person: now, in the past and in the future |
| `blocks/NAME.md` | blocks, which every request about the person carries |
| {nouns} | the thread's working memory |
| `pages/THREAD/PAGE.md` | pages that agents made, in full |
| `observations/THREAD.md` | summaries of messages |
| `processing.md` | purposes, sources, how long it is kept |

Texts of agents stand in blocks of code, as they are. Erased content is marked as
erased. Names of files are percent-encoded.

**Nothing here is signed, and this is not all.** The bundle of `manage.py export` is
signed. It has every event, all versions, media, models' thoughts, and who read this
memory. Another MemoryHub imports the bundle only.
"""


def stream(
    cut: BundleCut, *, progress: Callable[[int], None] = lambda events: None
) -> Iterator[bytes]:
    """Yield a ZIP of the tree, part by part; `progress` receives counts of events.

    Raises SubjectErasedError between two parts once the subject's epoch has moved.
    """
    return bundles.stream_archive(
        cut, lambda archive: _add_files(archive, cut, progress)
    )


def _add_files(
    archive: ZipArchive, cut: BundleCut, progress: Callable[[int], None]
) -> Iterator[bytes]:
    yield from archive.add("README.md", [Chunk(_render_readme(cut))])
    threads = map(_render_thread, bundle_states.iter_thread_records(cut))
    yield from _add(archive, "threads.md", "# Threads\n", threads)
    names = {part.id: part.name for part in cut.parts}
    for _, batches in groupby(bundle_events.iter_events(cut), lambda each: each[0].id):
        tree = _ThreadTree(archive, cut, names)
        yield from tree.add_events(batches, progress)
        if tree.part.status != "erased":
            yield from tree.add_states()
    yield from archive.add(
        "processing.md", [Chunk(bundle_texts.render_processing(cut))]
    )


def _add(
    archive: ZipArchive, path: str, head: str, rendered: Iterable[str]
) -> Iterator[bytes]:
    """Add a file of these texts below a heading; no file without texts."""
    left = iter(rendered)
    first = next(left, None)
    if first is not None:
        lines = (f"{text}\n".encode() for text in chain([head, first], left))
        yield from archive.add(path, join_lines(lines))


class _ThreadTree:
    """Files of one thread: its messages first, then its state."""

    def __init__(
        self, archive: ZipArchive, cut: BundleCut, names: Mapping[UUID, str]
    ) -> None:
        self._archive = archive
        self._cut = cut
        #: Names of all threads of the cut.
        self._names = names
        #: The thread as far as its events were read.
        self.part: ThreadCut
        #: Erased contents of other events than messages, by type.
        self._erased: Counter[str] = Counter()

    def add_events(
        self,
        batches: Iterable[tuple[ThreadCut, list[BundleLine]]],
        progress: Callable[[int], None],
    ) -> Iterator[bytes]:
        """Add the thread's messages, and counts of what else was erased."""
        first = next(iter(batches))
        self.part = first[0]
        title = _render_title(first[1])
        head = f"# Thread {render_code(self.part.name)}{title}\n{self._render_origin()}"
        rendered = chain(
            self._iter_messages(chain([first], batches), progress),
            self._iter_tombstones(),
        )
        yield from _add(self._archive, self._build_path("threads"), head, rendered)

    def add_states(self) -> Iterator[bytes]:
        """Add a file for each kind of memory that the thread has."""
        thread, state = bundle_states.fold_cut_thread(self._cut, self.part)
        for file in _RECORDS:
            head = self._render_head(file.name.capitalize())
            rendered = self._iter_records(file, thread, state)
            yield from _add(self._archive, self._build_path(file.name), head, rendered)
        found = (*state.observing.log, *state.observing.chunks)
        yield from _add(
            self._archive,
            self._build_path("observations"),
            self._render_head("Observations"),
            _iter_observations(thread, state, found),
        )
        yield from self._add_pages(thread, state)
        if state.home:
            yield from _add(
                self._archive, "facts.md", "# Facts\n", self._iter_facts(thread)
            )

    def _iter_messages(
        self,
        batches: Iterable[tuple[ThreadCut, list[BundleLine]]],
        progress: Callable[[int], None],
    ) -> Iterator[str]:
        empty = not self.part.name.startswith(HOME)
        for part, lines in batches:
            self.part = part
            for line in lines:
                if line.type == SlotAppended.event_type:
                    empty = False
                    yield _render_message(line)
                elif line.erased is not None:
                    self._erased[line.type] += 1
            progress(len(lines))
        if empty:
            yield "*No messages.*\n"

    def _iter_tombstones(self, types: Collection[str] | None = None) -> Iterator[str]:
        """Yield a sentence for each type of event with erased content."""
        for kind, number in sorted(self._erased.items()):
            if types is None or kind in types:
                yield f"*Erased: content of {number:,} `{kind}`.*\n"

    def _iter_records(
        self, file: StateFile, thread: Thread, state: ThreadState
    ) -> Iterator[str]:
        content = _CONTENT.get(file.name, "")
        for number, record in enumerate(
            file.lines(thread, state, self._cut.taken_at), start=1
        ):
            shown = render_record(record, content=content, omit=("thread", "erased"))
            yield f"## {number}\n\n{shown}"
        yield from self._iter_tombstones(file.needs)

    def _add_pages(self, thread: Thread, state: ThreadState) -> Iterator[bytes]:
        """Add a file for each block, and for each page that is no message."""
        lines = page_states.STATES.lines(thread, state, self._cut.taken_at)
        found = (
            page
            for page in lines
            if page.slot is None and not is_observation(page.page_id)
        )
        folder = f"pages/{encode_file_name(self.part.name)}"
        while batch := [*islice(found, BATCH)]:
            places = {page.page_id: _find_place(page) for page in batch}
            opened = texts.open_events_at(thread, [*places.values()])
            for page in batch:
                into = "blocks" if page.type == BLOCK else folder
                path = f"{into}/{encode_file_name(page.page_id)}.md"
                text = _render_page(page, opened[places[page.page_id]])
                yield from self._archive.add(path, [Chunk(text.encode())])

    def _iter_facts(self, home: Thread) -> Iterator[str]:
        at = self._cut.taken_at

        def is_past(fact: Fact) -> bool:
            return fact.end is not None and fact.end <= at

        sections: dict[str, Callable[[Fact], bool]] = {
            "Now": lambda fact: fact.is_valid_at(at),
            "Past": is_past,
            "Future": lambda fact: fact.begin > at and not is_past(fact),
        }
        for title, needs in sections.items():
            found = facts.iter_facts(home, known_at=home.head_seq, needs=needs)
            for number, fact in enumerate(found):
                yield ("" if number else f"## {title}\n\n") + _render_fact(fact)
        yield from self._iter_tombstones([FactAsserted.event_type])

    def _build_path(self, folder: str) -> str:
        return f"{folder}/{encode_file_name(self.part.name)}.md"

    def _render_head(self, title: str) -> str:
        return f"# {title} of {render_code(self.part.name)}\n"

    def _render_origin(self) -> str:
        """Render whose messages the thread continues, and whether it is erased."""
        if self.part.status == "erased":
            return "\nThis thread was erased.\n"
        if self.part.parent is None or self.part.parent not in self._names:
            return ""
        name = self._names[self.part.parent]
        return (
            f"\nContinues {render_code(name)} from event {self.part.parent_seq:,} on: "
            f"see [its messages]({quote(encode_file_name(name))}.md).\n"
        )


def _render_readme(cut: BundleCut) -> bytes:
    return _README.format(
        subject=cut.subject.id,
        taken=format_time(cut.taken_at),
        threads=len(cut.parts),
        nouns=", ".join(f"`{file.name}/THREAD.md`" for file in _RECORDS),
    ).encode()


def _render_title(lines: Iterable[BundleLine]) -> str:
    """Render the title that an imported thread had in its file, if it had one."""
    for line in lines:
        if line.type == RunRecorded.event_type and line.content:
            info = strict_json.parse_stored(line.content).get("info")
            title = info.get("title") if isinstance(info, dict) else None
            if isinstance(title, str) and title.strip():
                return f": {render_code(title.strip())}"
    return ""


def _render_thread(record: bundle_states.ThreadRecord) -> str:
    shown = render_record(record, omit=("name",))
    return f"## {render_code(record.name)}\n\n{shown}"


def _render_message(line: BundleLine) -> str:
    body = orjson.loads(line.body)
    ends = [render_code(body[name]) for name in ("from", "to")]
    content = line.content and strict_json.parse_stored(line.content)
    at = (parse_agent_time(content) if content else None) or line.at
    shown = _render_content(content["content"]) if content else ERASED
    return (
        f"## {body['index']}\n\n{ends[0]} to {ends[1]}, {format_time(at)}, "
        f"{render_code(body['type'])}\n\n{shown}"
    )


def _render_content(content: Any) -> str:
    """Render the words of a message, or its JSON if it has no words."""
    if content == "":
        return "*Empty.*\n"
    _, text = get_slot_body(content)
    return render_value(text if text != "" else content)


def _find_place(page: PageRecord) -> tuple[Any, int]:
    """Find the event with the full text of a page."""
    return page.levels[0].thread, page.levels[0].seq


def _render_page(page: PageRecord, event: texts.OpenedEvent) -> str:
    fields = render_record(page, omit=("thread", "page_id", "levels", "slot"))
    content = event.content
    shown = ERASED
    if content is not None:
        text = content.get("content")
        if isinstance(text, dict) and text.keys() == {"text"}:
            text = text["text"]
        shown = render_value(text)
        fields += "".join(
            render_field(name, content[name])
            for name in ("hint", "meta")
            if content.get(name)
        )
    return f"# {render_code(page.page_id)}\n\n{fields}\n{shown}"


def _iter_observations(
    thread: Thread, state: ThreadState, found: Iterable[Observation]
) -> Iterator[str]:
    left = iter(found)
    while batch := [*islice(left, BATCH)]:
        opened = texts.open_events(thread, state, [each.clock for each in batch])
        for each in batch:
            content = opened[each.clock].content
            shown = render_block(content["content"]["text"]) if content else ERASED
            head = f"## Messages {each.begin:,} to {each.end - 1:,}"
            yield f"{head}\n\n{format_time(opened[each.clock].at)}\n\n{shown}"


def _render_fact(fact: FactLine) -> str:
    times = f"from {format_time(fact.valid_from)}"
    if fact.valid_until is not None:
        times += f" until {format_time(fact.valid_until)}"
    if not fact.predicate:
        return f"{ERASED}\n{times}\n"
    sources = ", ".join(f"{render_code(s.thread)} event {s.seq}" for s in fact.sources)
    learnt = f", learnt from {sources}" if sources else ""
    return (
        f"{render_code(fact.entity)} {render_code(fact.predicate)}, {times}{learnt}:"
        "\n\n"
        f"{render_block(fact.value)}"
    )

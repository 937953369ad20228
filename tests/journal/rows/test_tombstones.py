"""Tombstones: an erased value stays out on every way in, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.errors import (
    ValueErasedError,
)
from memoryhub.journal.log import log
from memoryhub.journal.rows import tombstones
from memoryhub.kernel.memory.key_events import KeySet
from memoryhub.kernel.memory.keys import Expiry, RetimeKey
from memoryhub.kernel.memory.notes import AddNotes, NewNote, NoteAdded
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import strict_json
from memoryhub.models import Event, Project, Subject, Thread, Tombstone
from memoryhub.models.server.clock import clock
from memoryhub.queries.paging import pages
from memoryhub.queries.turns import envelopes
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks
from memoryhub.services.knowledge.blocks import BlockDraft
from memoryhub.services.memory import keys, operator_memory, working_memory
from memoryhub.services.paging import pages as written_pages
from memoryhub.services.paging.pages import PageChange
from memoryhub.services.people import subjects
from memoryhub.services.threads import threads
from tests.cast import factories, graves
from tests.cast.forgetting import forget
from tests.services import acts

pytestmark = pytest.mark.django_db

ERASED = "Ann lives at 14 Rue des Lilas, Lyon."
NEIGHBOUR = "Ann lives in Lyon, street unknown."
Write = Callable[[Agent, str, str], object]


@pytest.fixture
def ann(agent: Agent) -> Subject:
    """Make a subject with a thread `ann-1` and a fork `ann-2`, both with a page."""
    factories.make_thread(agent, "ann-1", user_id="ann")
    factories.make_page(agent, "old", thread="ann-1")
    acts.fork(agent, "ann-1", "ann-2")
    return subjects.find_or_create(agent.project, "ann")


@pytest.fixture
def bob(agent: Agent) -> Subject:
    """Make a second person, who may be told all that is kept out of ann's memory."""
    factories.make_thread(agent, "bob-1", user_id="bob")
    factories.make_page(agent, "old", thread="bob-1")
    acts.fork(agent, "bob-1", "bob-2")
    return subjects.find_or_create(agent.project, "bob")


def _make_page(agent: Agent, whose: str, text: str) -> object:
    return factories.make_page(agent, "new", thread=f"{whose}-1", text=text)


def _pages(agent: Agent, whose: str, text: str) -> object:
    draft, other = (
        written_pages.PageDraft(
            page_id=page_id, type="artifact", modality="text", content={"text": each}
        )
        for page_id, each in (("a", text), ("b", "Another page of the same batch."))
    )
    write = written_pages.write_pages(
        agent=agent, thread=f"{whose}-1", drafts=[other, draft]
    )
    return factories.run(write)


def _structured(agent: Agent, whose: str, text: str) -> object:
    return factories.make_page(
        agent,
        "new",
        thread=f"{whose}-1",
        modality="structured",
        content={"data": text},
    )


def _replaced(agent: Agent, whose: str, text: str) -> object:
    draft = written_pages.PageDraft(
        page_id="old", type="artifact", modality="text", content={"text": text}
    )
    write = written_pages.write_pages(
        agent=agent, thread=f"{whose}-2", drafts=[draft], replace=True
    )
    return factories.run(write)


def _amended(agent: Agent, whose: str, text: str) -> object:
    thread = factories.get_thread(agent, f"{whose}-1")
    entry = pages.find_current_entry(thread, "old")
    assert entry is not None
    change = PageChange(content={"text": text})
    amend = written_pages.amend_page(
        agent=agent, thread=thread, entry=entry, change=change
    )
    return factories.run(amend)


def _prompt(agent: Agent, whose: str, text: str) -> object:
    write = written_pages.write_system_prompt(
        agent=agent,
        thread=f"{whose}-1",
        text=text,
        tokens=None,
        preconditions=written_pages.Preconditions(),
    )
    return factories.run(write)


def _set_key(agent: Agent, whose: str, text: str) -> object:
    change = keys.build_setting("address", text, Expiry())
    return factories.run(
        keys.change_keys(agent=agent, thread=f"{whose}-1", changes=(change,))
    )


def _set_keys(agent: Agent, whose: str, text: str) -> object:
    changes = (
        keys.build_setting("a", "The first of two values.", Expiry()),
        keys.build_setting("b", {"text": text}, Expiry()),
    )
    return factories.run(
        keys.change_keys(
            agent=agent, thread=f"{whose}-1", changes=changes, numbered=True
        )
    )


def _note(agent: Agent, whose: str, text: str) -> object:
    notes = [
        NewNote(text=strict_json.dump_stored(each), bytes=1) for each in ("a", text)
    ]
    command = AddNotes(notes=tuple(notes))
    return factories.run(
        working_memory.submit_command(agent=agent, thread=f"{whose}-1", command=command)
    )


def _by_operator(agent: Agent, whose: str, text: str) -> object:
    seat = keys.build_setting("seat", "12A", Expiry())
    made = factories.run(
        keys.change_keys(agent=agent, thread=f"{whose}-1", changes=(seat,))
    )
    thread = factories.get_thread(agent, f"{whose}-1")
    value = strict_json.dump_stored(text)
    version, actor = made.seq, f"operator:{agent.key}"
    return operator_memory.set_key(
        thread, "seat", value, Expiry(), version=version, actor=actor
    )


def _by_new_thread(agent: Agent, whose: str, text: str) -> object:
    """Write by a command that makes its thread; refused, it makes none."""
    subject = subjects.find_or_create(agent.project, whose)
    bound = factories.make_agent(Project.objects.get(), subject=subject)
    change = keys.build_setting("address", text, Expiry())
    return factories.run(
        keys.change_keys(agent=bound, thread=f"{whose}-3", changes=(change,))
    )


WAYS: dict[str, Write] = {
    "a page": _make_page,
    "pages together": _pages,
    "a page of another shape": _structured,
    "a page in the place of another": _replaced,
    "a page's new content": _amended,
    "the system prompt": _prompt,
    "a key": _set_key,
    "keys together": _set_keys,
    "a note": _note,
    "an operator's edit": _by_operator,
    "a thread's first write": _by_new_thread,
}
KINDS = ("page", "key", "note")


def _count_rows() -> tuple[int, ...]:
    return Event.objects.count(), Thread.objects.count()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_erased_value_stays_out(
    agent: Agent, ann: Subject, bob: Subject, way: str, kind: str
) -> None:
    """An erased value of any kind is refused; another subject may write it."""
    write = WAYS[way]
    assert graves.bury_values(ann, [(kind, {"text": ERASED})]) == 1
    before = _count_rows()
    if way == "an operator's edit":
        before = (before[0] + 1, before[1])
    with pytest.raises(ValueErasedError) as caught:
        write(agent, "ann", ERASED)
    stone = Tombstone.objects.get()
    detail = {"tombstone": str(stone.id), "erasure": str(stone.erasure_id)}
    assert caught.value.detail == detail
    assert _count_rows() == before
    write(agent, "bob", ERASED)
    write(agent, "ann", NEIGHBOUR)
    assert _count_rows()[0] > before[0] + 1


@pytest.mark.parametrize("way", WAYS)
def test_other_subject_may_write_an_erased_value(
    agent: Agent, ann: Subject, bob: Subject, way: str
) -> None:
    graves.bury_values(ann, [("page", {"text": ERASED})])
    before = _count_rows()
    WAYS[way](agent, "bob", ERASED)
    assert _count_rows()[0] > before[0]


@pytest.mark.parametrize("scope", ["thread", "before", "record"])
@pytest.mark.parametrize("way", ["a page", "a key", "a note"])
def test_value_erased_with_a_thread_or_record_stays_out(
    agent: Agent, ann: Subject, bob: Subject, scope: str, way: str
) -> None:
    """The scope is each narrower one; a neighbouring text may be written again."""
    write = WAYS[way]
    factories.append(agent, "ann-1", NEIGHBOUR)
    write(agent, "ann", ERASED)
    thread = factories.get_thread(agent, "ann-1")
    seq = Event.objects.filter(thread=thread, payload__isnull=False).latest("seq").seq
    scopes: dict[str, dict[str, Any]] = {
        "thread": {"thread": thread},
        "before": {"before": clock.now()},
        "record": {"thread": thread, "seq": seq},
    }
    forget(ann, scope, until="rows_erased", **scopes[scope])
    factories.make_thread(agent, "later-1", user_id="ann")
    for again in (_make_page, _set_key, _note):
        with pytest.raises(ValueErasedError):
            again(agent, "later", ERASED)
    factories.append(agent, "later-1", NEIGHBOUR, ERASED)
    # A key keeps what is said now, though a message that said it was erased.
    _set_key(agent, "later", NEIGHBOUR)
    write(agent, "bob", ERASED)


def test_person_may_have_another_block_after_one_was_erased(
    agent: Agent, ann: Subject
) -> None:
    """Every block may have an empty description."""

    def put(name: str, text: str) -> None:
        draft = BlockDraft(block=name, text=text)
        factories.run(blocks.put_block(agent=agent, subject=ann, draft=draft))
        ann.refresh_from_db()

    put("home", ERASED)
    forget(ann, "thread", until="rows_erased", thread=Thread.objects.get(home=True))
    put("town", NEIGHBOUR)
    with pytest.raises(ValueErasedError):
        put("again", ERASED)


SPELLINGS = {
    "case": ERASED.upper(),
    "spaces": ERASED.replace(" ", "\n  "),
    "nothing": ERASED.replace("a", "a\u200b"),
    "look-alikes": ERASED.replace("e", "\u0435").replace("A", "\u0391"),
}


@pytest.mark.parametrize("how", SPELLINGS)
def test_erased_value_stays_out_however_it_is_spelled(
    agent: Agent, ann: Subject, how: str
) -> None:
    graves.bury_values(ann, [("page", {"text": ERASED})])
    with pytest.raises(ValueErasedError):
        _make_page(agent, "ann", SPELLINGS[how])
    with pytest.raises(ValueErasedError):
        _set_key(agent, "ann", SPELLINGS[how])


def test_paraphrase_of_an_erased_value_is_accepted(agent: Agent, ann: Subject) -> None:
    """A digest compares texts, not their meaning; decision 22 says so."""
    graves.bury_values(ann, [("page", {"text": ERASED})])
    _make_page(agent, "ann", "The Rue des Lilas in Lyon, at 14, is where Ann lives.")
    _note(agent, "ann", f"{ERASED} So she said.")


def test_values_inside_a_structure_are_compared_folded(
    agent: Agent, ann: Subject
) -> None:
    value = {"street": "14 Rue des Lilas", "town": ["Lyon", None, 69003, 4.5]}
    graves.bury_values(ann, [("key", value)])
    changed = {"town": ["LYON ", None, 69003, 4.5], "street": "14 rue des  lilas"}
    setting = keys.build_setting("home", changed, Expiry())
    with pytest.raises(ValueErasedError):
        factories.run(keys.change_keys(agent=agent, thread="ann-1", changes=(setting,)))
    other = {**changed, "town": ["Lyon", None, 69004, 4.5]}
    setting = keys.build_setting("home", other, Expiry())
    factories.run(keys.change_keys(agent=agent, thread="ann-1", changes=(setting,)))


def test_greeting_is_not_blocked_by_tombstones(agent: Agent, ann: Subject) -> None:
    """Utterances are not blocked either: each is new."""
    short = "Good morning, Ann! "
    assert len(short.strip()) < tombstones.SHORTEST
    buried = [("note", short), ("page", {"text": short}), ("key", "yes")]
    assert graves.bury_values(ann, buried) == 0
    assert graves.bury_values(ann, [("page", {"text": ERASED})]) == 1
    for way in (_note, _make_page, _set_key):
        way(agent, "ann", short)
    factories.append(agent, "ann-1", ERASED, {"role": "user", "content": ERASED})


def test_value_of_twenty_characters_gets_a_tombstone(
    agent: Agent, ann: Subject
) -> None:
    assert graves.bury_values(ann, [("note", "x" * 19), ("note", "y" * 20)]) == 1
    _note(agent, "ann", "x" * 19)
    with pytest.raises(ValueErasedError):
        _note(agent, "ann", " ".join(["y" * 20, "\u200b"]))


def test_inherited_value_is_not_written_anew(agent: Agent, ann: Subject) -> None:
    """Retiming a key in a fork would repeat it: its payload is the ancestor's."""
    _set_key(agent, "ann", ERASED)
    acts.fork(agent, "ann-1", "ann-4")
    graves.bury_values(ann, [("key", ERASED)])
    retiming = RetimeKey(
        key="address", expiry=Expiry(), value=strict_json.dump_stored(ERASED)
    )
    with pytest.raises(ValueErasedError):
        factories.run(
            working_memory.submit_command(agent=agent, thread="ann-4", command=retiming)
        )


def test_value_that_is_erased_twice_has_one_tombstone(ann: Subject) -> None:
    assert graves.bury_values(ann, [("page", {"text": ERASED})]) == 1
    assert graves.bury_values(ann, [("page", {"text": ERASED.lower()})]) == 0
    assert graves.bury_values(ann, [("note", ERASED)]) == 0
    ann.refresh_from_db()
    assert ann.tombstones == Tombstone.objects.count() == 1


def test_tombstone_check_costs_no_query_without_tombstones(
    agent: Agent, ann: Subject, bob: Subject, django_assert_max_num_queries: Any
) -> None:
    """With tombstones a check costs one more query; no other subject pays for it."""
    for whose in ("ann", "bob"):
        _note(agent, whose, NEIGHBOUR)
    counts = []
    for _ in range(2):
        for whose in ("ann", "bob"):
            with django_assert_max_num_queries(100) as captured:
                _note(agent, whose, NEIGHBOUR)
            counts.append(len(captured.captured_queries))
        graves.bury_values(ann, [("page", {"text": ERASED})])
    before, twin, after, still = counts
    assert before == twin == still == after - 1


def test_importer_skips_erased_values(ann: Subject, bob: Subject) -> None:
    body = {"turn": 0, "page_id": "p", "type": "artifact", "modality": "text"}
    weight = {"tokens": 1, "cost": 1, "bytes": 1, "importance": 0.5}
    created = PageCreated(**body, **weight, mapped=False)  # type: ignore[arg-type]
    updated = PageUpdated(**body, **weight, version=2)  # type: ignore[arg-type]
    contents: list[tuple[Any, dict[str, Any] | None]] = [
        (created, {"content": {"text": ERASED}}),
        (updated, {"hint": ERASED}),
        (KeySet(key="k", bytes=64), {"value": ERASED}),
        (NoteAdded(bytes=1), {"text": NEIGHBOUR}),
        (NoteAdded(bytes=1), None),
    ]
    graves.bury_values(ann, [("page", {"text": ERASED})])
    assert tombstones.find_erased(graves.open_keys(ann), contents).keys() == {0, 1, 2}
    assert tombstones.find_erased(graves.open_keys(bob), contents) == {}


def test_tombstone_digest_of_an_event_equals_that_of_its_draft(
    agent: Agent, ann: Subject
) -> None:
    """The digest of a stored event is that of its draft."""
    _make_page(agent, "ann", ERASED)
    thread = factories.get_thread(agent, "ann-1")
    entry = pages.find_current_entry(thread, "new")
    assert entry is not None
    row = Event.objects.get(thread=thread, seq=entry.full.location.seq)
    event = log.to_recorded(row).event
    payload = envelopes.get_payload(thread, entry)
    (found,) = tombstones.iter_values(graves.open_keys(ann), event, payload)
    digest = tombstones.digest_value(graves.open_keys(ann), {"text": ERASED})
    assert (found.of, found.digest) == ("page", digest)


def test_limits_of_a_thread_are_no_values(agent: Agent, ann: Subject) -> None:
    """Labels and settings are names and numbers, no content to keep out."""
    graves.bury_values(ann, [("page", {"text": ERASED})])
    factories.run(
        threads.amend(
            agent=agent,
            thread="ann-1",
            scope=ScopeLabels(),
            labels={"plan": "gold-and-something-longer"},
            config=ThreadConfig(max_slots=7).model_dump(exclude_unset=True),
        )
    )

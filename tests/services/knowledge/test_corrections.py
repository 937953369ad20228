"""Corrected facts: never told as current, neither by recall nor in requests."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from memoryhub.kernel.knowledge.derivation import Fact
from memoryhub.kernel.tools.tools import SearchCall
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import map_timelines
from memoryhub.queries.search import searching
from memoryhub.queries.search.hits import SearchHit
from memoryhub.queries.search.searching import SearchRequest
from memoryhub.queries.turns import contexts
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import page_searches
from memoryhub.services.rebuild import rebuild
from tests.cast import bundled, factories, forgetting
from tests.cast.factories import run
from tests.cast.knowing import claim, end, every, retract, say, to_day
from tests.services.observing.test_extraction import SETTINGS, request_of, talk
from tests.services.turns.test_recall import get_brought_text
from tests.services.turns.test_turns import begin, reassemble_request

pytestmark = pytest.mark.django_db

#: The old and the new value of twenty predicates.
CORRECTED = {
    "home airport": ("Gardermoen", "Flesland"),
    "seat": ("window", "aisle"),
    "diet": ("vegetarian", "pescatarian"),
    "town": ("Trondheim", "Bergen"),
    "employer": ("Nordlys", "Havbris"),
    "phone": ("ends in 0417", "ends in 5238"),
    "doctor": ("Lindqvist", "Amundsen"),
    "dentist": ("Moreau", "Petrov"),
    "car": ("a grey estate", "a blue hatchback"),
    "landlord": ("Kowalski", "Ferreira"),
    "bank": ("Sparbank", "Kystbank"),
    "gym": ("Ironworks", "Seaside"),
    "school": ("Ullern", "Nattland"),
    "language": ("Danish", "Icelandic"),
    "instrument": ("cello", "accordion"),
    "breakfast": ("porridge", "rye crisps"),
    "newspaper": ("the Morning Post", "the Evening Ledger"),
    "holiday": ("Crete", "Madeira"),
    "bicycle": ("a red tourer", "a green folder"),
    "password hint": ("first teacher", "oldest aunt"),
}


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "spring", user_id="ann")
    factories.append(
        agent,
        "spring",
        *(f"My {each} is {was}." for each, (was, _) in _list_corrected()),
    )
    factories.make_thread(agent, "summer", user_id="ann")
    factories.append(
        agent,
        "summer",
        *(f"My {each} is {now} by now." for each, (_, now) in _list_corrected()),
    )
    ann = forgetting.get_subject(agent, "ann")
    for n, predicate in enumerate(CORRECTED):
        correct(agent, ann, n, predicate)
    return ann


def _list_corrected() -> list[tuple[str, tuple[str, str]]]:
    return [*CORRECTED.items()]


def correct(agent: Agent, ann: Subject, n: int, predicate: str) -> None:
    """Correct a value by a later or an earlier claim, a retraction, or an end."""
    was, now = CORRECTED[predicate]
    begins = (5, -5, 5, 9)[n % 4]
    old = claim(was, 0, predicate=predicate, source=("spring", n + 2))
    new = claim(now, begins, predicate=predicate, source=("summer", n + 2))
    seq = say(agent, ann, old).seq
    if n % 4 == 1:
        # The old claim was never true.
        say(agent, ann, claim(now, 0, predicate=predicate))
    if n % 4 == 2:
        retract(agent, ann, seq, "wrong")
    if n % 4 == 3:
        end(agent, ann, seq, 7)
    say(agent, ann, new)


def find(ann: Subject, query: str, **where: Any) -> list[SearchHit]:
    request = SearchRequest.parse(query, limit=20)
    told = FactFilter(**{"valid_at": to_day(100)} | where)
    return [*searching.recall(ann, replace(request, where=told)).items]


def test_corrected_value_is_marked_in_recall_and_requests(
    agent: Agent, ann: Subject
) -> None:
    """Mark all twenty old values in recall and in a new thread's requests."""
    factories.make_thread(agent, "t-1", user_id="ann", recall="subject")
    for n, (predicate, (was, now)) in enumerate(_list_corrected()):
        hits = find(ann, f"What is my {predicate}?")
        assert any(now in hit.excerpt.text for hit in hits), predicate
        told = [hit for hit in hits if was in hit.excerpt.text]
        assert {hit.kind for hit in told} == {"message"}, predicate
        mark = _mark(n, predicate, now)
        assert [hit.marks for hit in told] == [mark], predicate
        begun = begin(agent, f"What is my {predicate}?")
        entries = get_brought_text(begun.request).split("\n\n")
        assert any(now in entry for entry in entries), predicate
        for entry in entries:
            assert f"is {was}" not in entry or mark in entry, entry
        assert reassemble_request(agent, begun.turn) == begun.request


def test_recalled_facts_are_those_valid_on_the_asked_day(
    agent: Agent, ann: Subject
) -> None:
    for n in range(50):
        say(agent, ann, claim("BGO", 10, predicate="hub", confidence=n / 100))
    other = say(agent, ann, claim("OSL", 40, predicate="hub")).seq
    (hit,) = find(ann, "kind:fact hub bgo osl", valid_at=to_day(20))
    assert hit.excerpt.text == (
        "user hub BGO, since 2026-01-11 until 2026-02-10, confidence 0.49"
    )
    assert hit.fact is not None
    assert (hit.fact.confirmations, hit.fact.closed_by) == (50, other)
    now = find(ann, "kind:fact hub")
    assert [each.seq for each in now] == [other]
    both = find(ann, "kind:fact hub", ended=True)
    assert {each.fact.value for each in both if each.fact} == {
        each.value for each in _timeline(ann, other)
    }
    assert find(ann, "kind:fact hub", valid_at=to_day(0)) == []
    believed = find(ann, "kind:fact hub", known_at=to_day(1))
    assert believed == []


def _timeline(ann: Subject, seq: int) -> list[Fact]:
    home = find_home(ann)
    assert home is not None
    return map_timelines(home, [seq])[seq].facts


def test_page_search_marks_a_fact_that_no_longer_holds(
    agent: Agent, ann: Subject
) -> None:
    call = SearchCall(query="my diet", limit=1)
    answer = run(page_searches.search_for_model(agent, "spring", call))
    assert "· [withdrawn]: My diet is vegetarian." in answer


def test_thread_search_marks_facts_that_no_longer_hold(
    agent: Agent, ann: Subject
) -> None:
    home, spring = find_home(ann), factories.get_thread(agent, "spring")
    assert home is not None
    where = FactFilter(valid_at=to_day(100))
    for n, (predicate, (was, now)) in enumerate(_list_corrected()):
        request = replace(SearchRequest.parse(f"my {predicate}", limit=1), where=where)
        (hit,) = searching.search_thread(spring, request).items
        assert was in hit.excerpt.text
        assert hit.marks == _mark(n, predicate, now)
        (told,) = hit.marked
        assert (told.by is None) == (n % 4 == 2)
        (then,) = searching.search_thread(spring, request, seq=spring.head_seq).items
        assert replace(hit, marked=()) == then
    asked = replace(SearchRequest.parse("kind:fact employer", limit=9), where=where)
    claimed = searching.search_thread(home, asked).items
    assert all(hit.fact is None and not hit.marked for hit in claimed)
    assert len(claimed) == 2


def test_marked_text_leaves_the_exchange_when_its_mark_is_erased(
    agent: Agent, ann: Subject
) -> None:
    factories.make_thread(agent, "t-1", user_id="ann", recall="subject")
    first = begin(agent, "What is my employer?")
    assert "since 2026-01-06 employer Havbris]" in (
        before := get_brought_text(first.request)
    )
    home = find_home(ann)
    assert home is not None
    (seq,) = (
        fact.id for fact in every(ann, predicate="employer") if fact.value == "Havbris"
    )
    forgetting.forget(ann, "record", thread=home, seq=seq, until="caches_purged")
    again = begin(agent, continues=True)
    assert "Nordlys" in before
    assert "Havbris" not in again.request.decode().replace("employer is Havbris by", "")
    row = factories.get_thread(agent, "t-1")
    lost = contexts.reassemble_request(row, contexts.get_recorded_turn(row, first.turn))
    assert (lost.request, lost.missing) == (None, (f"fact-{seq}",))


def test_correction_marks_are_imported_with_a_bundle(
    agent: Agent, ann: Subject, zeta: Project
) -> None:
    factories.make_thread(agent, "t-1", user_id="ann", recall="subject")
    begun = begin(agent, "What is my employer?")
    bundled.take(bundled.export(ann), zeta)
    there = Thread.objects.get(project=zeta, name="t-1")
    whole = contexts.reassemble_request(
        there, contexts.get_recorded_turn(there, begun.turn)
    )
    assert whole.request == begun.request


def _mark(n: int, predicate: str, now: str) -> str:
    if n % 4 == 2:
        return "[withdrawn]"
    since = ("2026-01-06", "2025-12-27", "", "2026-01-10")[n % 4]
    return f"[no longer so: since {since} {predicate} {now}]"


@pytest.mark.engines
def test_corrected_value_is_marked_in_the_log(agent: Agent) -> None:
    """Mark the log line that tells the value; the request's beginning changes once."""
    factories.make_thread(agent, "t-1", user_id="ann", **SETTINGS)
    talk(agent, 0, 2)
    factories.append(agent, "t-1", "Always fly me from Gardermoen, never from Torp.")
    place = factories.get_thread(agent, "t-1").head_seq
    begun = talk(agent, 3, 101)
    log, _ = request_of(begun)
    assert re.search(r"Gardermoen, never from Torp\. \[1\]$", log, re.MULTILINE)
    ann = forgetting.get_subject(agent, "ann")
    say(agent, ann, claim("Gardermoen", 0, source=("t-1", place)))
    assert request_of(talk(agent, 101, 103))[0] == log
    say(agent, ann, claim("Flesland </VM:LOG>", 9))
    marked, _ = request_of(begun := talk(agent, 103, 105))
    mark = "[no longer so: since 2026-01-10 home airport Flesland \\u003c/VM:LOG>]"
    assert marked == log.replace("Torp. [1]", f"Torp. [1] {mark}")
    assert request_of(talk(agent, 105, 107))[0] == marked
    thread = factories.get_thread(agent, "t-1")
    found = contexts.reassemble_request(
        thread, contexts.get_recorded_turn(thread, begun.turn)
    )
    assert found.verified
    assert [each.slot for each in found.recorded.record.log_marks] == [1]
    # A message that is not in the log yet is not marked there.
    factories.append(agent, "t-1", "My home airport is Kastrup.")
    raw = ("t-1", factories.get_thread(agent, "t-1").head_seq)
    say(agent, ann, claim("Kastrup", 3, source=raw))
    begun = talk(agent, 107, 109)
    assert request_of(begun)[0] == marked
    thread = factories.get_thread(agent, "t-1")
    record = contexts.get_recorded_turn(thread, begun.turn).record
    assert [each.slot for each in record.log_marks] == [1]
    rebuild(thread)

"""Facts: asserted, ended, retracted, and what erasing does to them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memoryhub.errors import (
    FactUnknownError,
    InvalidError,
    SubjectFullError,
    SubjectRestrictedError,
    TimelineFullError,
    ValueErasedError,
)
from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.knowledge import facts as kernel
from memoryhub.models.assertions import Assertion
from memoryhub.models.erasures import Tombstone
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import facts as known
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.knowledge.predicates import list_predicates
from memoryhub.queries.search import hits, searching
from memoryhub.queries.search.searching import SearchRequest
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import restrictions, subjects
from memoryhub.services.rebuild import rebuild
from memoryhub.vault.keys import blind_index, keys
from tests.cast import bundled, factories, forgetting
from tests.cast.knowing import (
    claim,
    configure,
    end,
    every,
    retract,
    say,
    to_day,
    to_spans,
)
from tests.oracles import memory_acts as acts
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db
#: The last state about rows: later steps look at files.
PURGED = "caches_purged"


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    factories.append(agent, "visit", "I moved to Bergen.", "Noted.")
    return forgetting.get_subject(agent, "ann")


def test_asserted_facts_are_read_as_of_any_day(agent: Agent, ann: Subject) -> None:
    say(
        agent,
        ann,
        claim("OSL", 0, confidence=0.4),
        claim("Silver", 5, predicate="tier"),
    )
    say(agent, ann, claim("BGO", 31, 90, confidence=0.9))
    now = every(ann, valid_at=to_day(40))
    assert {(each.predicate, each.value) for each in now} == {
        ("home airport", "BGO"),
        ("tier", "Silver"),
    }
    told = to_spans(every(ann, ended=True, predicate="Home  Airport", entity="USER"))
    assert told == [("OSL", 0, 31), ("BGO", 31, 90), ("OSL", 90, None)]
    assert every(ann, entity="somebody") == []
    (line,) = every(ann, predicate="tier")
    assert (line.confirmations, line.confidence, line.cardinality) == (
        1,
        None,
        "single",
    )


def test_spellings_of_a_predicate_are_one_timeline(agent: Agent, ann: Subject) -> None:
    say(agent, ann, claim("Lindau", 0, predicate="lives_in"))
    say(agent, ann, claim("Oslo", 31, predicate="lives in"))
    say(agent, ann, claim("fish", 0, predicate="Allergic-To"))
    configure(agent, ann, None, "Lives-In")
    for spelling in ("lives_in", "lives in", "Lives-In", " LIVES__in "):
        found = every(ann, ended=True, predicate=spelling)
        assert to_spans(found) == [("Lindau", 0, 31), ("Oslo", 31, None)], spelling
        # Each fact is shown as its earliest assertion spells it.
        assert [fact.predicate for fact in found] == ["lives_in", "lives in"]
    (fact,) = every(ann, predicate="allergic to")
    assert fact.cardinality == "multi"
    # Newest first, each as spelled last.
    assert list_predicates(ann) == ["Allergic-To", "lives in"]
    home = Thread.objects.select_related("subject").get(subject=ann, home=True)
    assert verify(home) is None


def test_recorded_time_is_the_home_threads(agent: Agent, ann: Subject) -> None:
    first = say(agent, ann, claim("OSL", 0)).events[-1].at
    say(agent, ann, claim("BGO", 31))
    before = every(ann, known_at=first)
    assert to_spans(before)
    assert every(ann, known_at=first - timedelta(days=1)) == []
    assert to_spans(every(ann)) == [("BGO", 31, None)]


def test_claim_without_a_time_begins_with_its_source(
    agent: Agent, ann: Subject
) -> None:
    said = Event.objects.filter(thread__name="visit", type="slot.appended").first()
    assert said is not None
    say(agent, ann, claim("BGO", source=("visit", said.seq)))
    (fact,) = every(ann, valid_at=said.at)
    assert fact.valid_from == said.at
    assert [(s.thread, s.seq) for s in fact.sources] == [("visit", said.seq)]


def test_claim_begins_at_the_agents_time_of_its_source(
    agent: Agent, ann: Subject
) -> None:
    slot = factories.make_slot("I moved.", agent_at=to_day(-400))
    said = act(agent, AppendSlots(slots=(slot,)), "visit")
    say(agent, ann, claim("BGO", source=("visit", said.seq)))
    (fact,) = every(ann, valid_at=to_day(-399))
    assert fact.valid_from == to_day(-400)
    assert every(ann, valid_at=to_day(-401)) == []


@pytest.mark.parametrize("source", [("visit", 1), ("visit", 99), ("no", 2), ("bo", 2)])
def test_unknown_source_is_refused_like_another_subjects(
    agent: Agent, ann: Subject, source: tuple[str, int]
) -> None:
    factories.make_thread(agent, "bo", user_id="bo")
    factories.append(agent, "bo", "I am Bo.")
    with pytest.raises(InvalidError) as refused:
        say(agent, ann, claim("BGO", 1, source=source))
    assert (refused.value.invalid_code, refused.value.loc) == (
        "unknown_source",
        "source",
    )


def test_interval_that_ends_before_it_begins_is_refused(
    agent: Agent, ann: Subject
) -> None:
    with pytest.raises(InvalidError):
        say(agent, ann, claim("BGO", 5, 5))
    say(agent, ann, claim("BGO", 5))
    with pytest.raises(InvalidError):
        end(agent, ann, every(ann)[0].id, 5)


def test_ended_fact_names_the_event_that_ended_it(agent: Agent, ann: Subject) -> None:
    say(agent, ann, claim("OSL", 0))
    seq = end(agent, ann, every(ann)[0].id, 60).seq
    assert every(ann) == []
    (fact,) = every(ann, ended=True)
    assert (to_spans([fact]), fact.closed_by) == ([("OSL", 0, 60)], seq)
    assert fact.confirmations == 2


def test_retracted_fact_is_gone_and_listed_as_wrong(agent: Agent, ann: Subject) -> None:
    say(agent, ann, claim("aisle", 0), claim("window", 9), claim("window", 12))
    window = every(ann)[0]
    story = known.get_fact(ann, window.id, now=to_day(20))
    assert len(story.rests_on) == 2
    retract(agent, ann, window.id, "wrong")
    assert to_spans(every(ann)) == [("aisle", 0, None)]
    assert [line.value for line in known.list_wrong(ann)] == ["window", "window"]
    say(agent, ann, claim("Window ", 15, origin="model"))
    assert to_spans(every(ann)) == [("aisle", 0, None)]
    say(agent, ann, claim("window", 16))
    assert to_spans(every(ann)) == [("window", 16, None)]
    # A second retraction changes nothing, and an unknown number is refused.
    thread = Thread.objects.get(subject=ann, home=True)
    assert not retract(agent, ann, window.id, whole=False).events
    with pytest.raises(FactUnknownError):
        retract(agent, ann, 9_999, whole=False)
    assert thread.head_seq + 0 == Thread.objects.get(id=thread.id).head_seq


def test_operator_overrides_the_cardinality_of_a_predicate(
    agent: Agent, ann: Subject
) -> None:
    say(agent, ann, claim("tea", 0, predicate="drinks"))
    say(agent, ann, claim("milk", 3, predicate="drinks"))
    assert len(every(ann)) == 1
    configure(agent, ann, "multi", "Drinks")
    assert {each.value for each in every(ann)} == {"tea", "milk"}
    configure(agent, ann, None, "drinks")
    assert len(every(ann)) == 1
    # Some predicates have many values by default.
    say(agent, ann, *(claim(each, 1, predicate="likes") for each in ("jazz", "rain")))
    assert len(every(ann, predicate="likes")) == 2


def test_claim_beyond_the_limits_is_refused(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "MAX_ASSERTIONS", 4)
    monkeypatch.setattr(kernel, "MAX_OF_TIMELINE", 2)
    say(agent, ann, claim("A", 0), claim("B", 1))
    with pytest.raises(TimelineFullError):
        say(agent, ann, claim("C", 2, predicate="HOME-airport"))
    say(agent, ann, claim("Gold", 0, predicate="tier"))
    with pytest.raises(SubjectFullError):
        say(agent, ann, claim("Silver", 1, predicate="tier"), claim("x", predicate="y"))


def test_claim_for_a_restricted_subject_is_refused(agent: Agent, ann: Subject) -> None:
    restrictions.restrict_subject(ann.id, basis="claims", actor="command")
    with pytest.raises(SubjectRestrictedError):
        say(agent, ann, claim("A", 0))


def learn_fact(agent: Agent, subject: Subject, value: str = "BGO") -> Event:
    said = Event.objects.filter(thread__name="visit", type="slot.appended").first()
    assert said is not None
    say(agent, subject, claim(value, 3, source=("visit", said.seq)))
    return said


def test_facts_of_an_erased_source_are_erased(agent: Agent, ann: Subject) -> None:
    say(agent, ann, claim("OSL", 0))
    said = learn_fact(agent, ann)
    assert to_spans(every(ann)) == [("BGO", 3, None)]
    thread = Thread.objects.get(name="visit")
    forgetting.forget(ann, "record", thread=thread, seq=said.seq, until=PURGED)
    assert to_spans(every(ann)) == [("OSL", 0, None)]
    # The assertion's row went with its payload.
    assert Assertion.objects.filter(thread__subject=ann).count() == 1
    home = Thread.objects.select_related("subject").get(subject=ann, home=True)
    rebuild(home)
    assert to_spans(every(ann)) == [("OSL", 0, None)]


def test_erased_fact_may_not_be_asserted_again(agent: Agent, ann: Subject) -> None:
    seq = say(agent, ann, claim("OSL", 0)).seq
    home = Thread.objects.get(subject=ann, home=True)
    forgetting.forget(ann, "record", thread=home, seq=seq, until=PURGED)
    assert [*Tombstone.objects.filter(kind="value").values_list("of", flat=True)] == [
        "fact"
    ]
    ann.refresh_from_db()
    again = (claim("osl", 9), claim("OSL", 1, predicate="Home_Airport"))
    for each in again:
        with pytest.raises(ValueErasedError):
            say(agent, ann, each)
    # A tombstone of an older version has the blank of the erased spelling.
    opened = keys.get_subject_keys(ann.id, epoch=ann.epoch)
    whole = '["fact.asserted","user","home airport","osl"]'
    stones = Tombstone.objects.filter(kind="value")
    assert stones.update(digest=blind_index.digest_value(opened, whole)) == 1
    for each in again:
        with pytest.raises(ValueErasedError):
            say(agent, ann, each)
    # The value alone is too short to be kept out; another triple is free.
    say(agent, ann, claim("OSL", 1, predicate="flies to"), claim("BGO", 1))
    assert len(every(ann)) == 2


def test_value_erased_from_a_note_may_not_be_asserted(
    agent: Agent, ann: Subject
) -> None:
    text = "ann.smith1987@example.com"
    acts.add_notes(agent, text, thread="visit")
    thread = Thread.objects.get(name="visit")
    seq = thread.head_seq
    forgetting.forget(ann, "record", thread=thread, seq=seq, until=PURGED)
    for again in (claim(text.upper(), 0), claim("yes", 0, predicate=text)):
        with pytest.raises(ValueErasedError):
            say(agent, ann, again)


def test_retired_thread_keeps_its_facts(agent: Agent, ann: Subject) -> None:
    learn_fact(agent, ann)
    thread = Thread.objects.get(name="visit")
    forgetting.forget(ann, "thread", thread=thread, reason="retention", until=PURGED)
    assert to_spans(every(ann)) == [("BGO", 3, None)]
    (fact,) = every(ann)
    assert fact.sources == ()


def test_bundle_brings_home_and_facts_back(
    agent: Agent, ann: Subject, zeta: Project
) -> None:
    say(agent, ann, claim("OSL", 0), claim("tea", 0, predicate="likes"))
    learn_fact(agent, ann)
    retract(agent, ann, say(agent, ann, claim("TRD", 1)).seq, "wrong", whole=False)
    before = to_spans(every(ann, ended=True))
    bundled.take(bundled.export(ann), zeta)
    there = subjects.find(zeta.id, "ann")
    assert there is not None
    assert sorted(to_spans(every(there, ended=True))) == sorted(before)
    # The imported subject has other keys, and its timelines go on.
    other = factories.make_agent(zeta)
    say(other, there, claim("BGO", 10, predicate="HOME airport"))
    assert to_spans(every(there, predicate="home airport")) == [("BGO", 3, None)]
    assert [line.value for line in known.list_wrong(there)] == ["TRD"]


def test_erased_subject_leaves_no_assertion_rows(agent: Agent, ann: Subject) -> None:
    say(agent, ann, claim("OSL", 0))
    forgetting.forget(ann, until=PURGED)
    assert not Assertion.objects.exists()


def test_fact_is_found_by_its_words(agent: Agent, ann: Subject) -> None:
    seq = say(agent, ann, claim("Bergen Flesland", 0)).seq
    for query in ("flesland", '"home airport Bergen"', "kind:fact airport"):
        (hit,) = searching.recall(ann, SearchRequest.parse(query)).items
        assert (hit.kind, hit.seq) == ("fact", seq), query


def test_outdated_fact_is_not_reported_as_an_erased_hit(
    agent: Agent, ann: Subject
) -> None:
    say(agent, ann, claim("OSL", 0))
    say(agent, ann, claim("BGO", 3))
    where = FactFilter(valid_at=to_day(9))
    found = searching.recall(ann, replace(SearchRequest.parse("OSL"), where=where))
    assert (found.items, found.reason) == ((), "no_match")


def test_current_fact_is_found_behind_more_old_values_than_are_opened(
    agent: Agent,
    ann: Subject,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_max_num_queries: Any,
) -> None:
    """Read the fact's timeline in one query, and open the current fact alone."""
    monkeypatch.setattr(searching, "OPENED", 3)
    monkeypatch.setattr(hits, "CHUNK", 2)
    say(agent, ann, *(claim(f"airport {n}", n) for n in range(40)))
    now = say(agent, ann, claim("Bergen Flesland, by the sea", 50)).seq
    where = FactFilter(valid_at=to_day(99))
    request = replace(SearchRequest.parse("airport"), where=where)
    searching.recall(ann, request)
    with django_assert_max_num_queries(3):
        result = searching.recall(ann, request)
    assert [hit.seq for hit in result.items] == [now]
    assert (result.total, result.degraded) == (1, ())


def test_recall_says_that_not_all_matches_were_looked_at(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "OPENED", 3)
    say(agent, ann, *(claim("BGO", 0, predicate=f"airport {n}") for n in range(4)))
    request = SearchRequest.parse("airport")
    for limit, degraded in ((3, ()), (4, ("matches",))):
        asked = replace(request, where=FactFilter(valid_at=to_day(9)), limit=limit)
        found = searching.recall(ann, asked)
        assert (len(found.items), found.degraded) == (3, degraded)

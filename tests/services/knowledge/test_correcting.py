"""Corrections of facts by an operator, and their undo."""

from __future__ import annotations

from datetime import datetime

import pytest

from memoryhub.errors import (
    ContentErasedError,
    FactUnknownError,
    InvalidError,
    StaleError,
)
from memoryhub.kernel.state.knowledge import Origin
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.knowledge import facts as known
from memoryhub.queries.knowledge.corrected_lines import LineChoice
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import corrections, homes
from memoryhub.services.knowledge.corrections import Correction
from memoryhub.services.rebuild import rebuild
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, every, retract, say, to_day, to_spans, write

pytestmark = pytest.mark.django_db
OPERATOR = "operator:0190aaaa-0000-7000-8000-000000000001"


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    factories.append(agent, "visit", "I moved to Bergen.")
    return forgetting.get_subject(agent, "ann")


def correct_fact(
    subject: Subject,
    seq: int,
    value: str,
    since: int | None,
    *lines: LineChoice,
    periods: frozenset[datetime] = frozenset(),
) -> int:
    """Correct a fact, and return the seq of the correction's last event."""
    story = known.get_fact(subject, seq, now=clock.now(), valid_at=to_day(1000))
    begin = None if since is None else to_day(since)
    correction = Correction(value=value, since=begin, lines=lines, periods=periods)
    command = corrections.build_correction(subject, story, correction, now=clock.now())
    return homes.perform(subject, command, actor=OPERATOR).events[-1].seq


def undo_correction(subject: Subject, seq: int) -> None:
    home = find_home(subject)
    assert home is not None
    command = corrections.build_undo(home, seq, now=clock.now())
    homes.perform(subject, command, actor=OPERATOR)


def test_value_that_was_never_true_is_replaced_and_brought_back(
    agent: Agent, ann: Subject
) -> None:
    said = Event.objects.get(thread__name="visit", type="slot.appended").seq
    learnt = claim("BGO", 3, source=("visit", said), origin="model")
    seq = say(agent, ann, learnt).seq
    made = correct_fact(ann, seq, "OSL", None)
    assert to_spans(every(ann, ended=True)) == [("OSL", 3, None)]
    say(agent, ann, learnt)  # A model cannot bring it back.
    assert to_spans(every(ann, ended=True)) == [("OSL", 3, None)]
    with pytest.raises(StaleError):
        undo_correction(ann, made)
    made = correct_fact(ann, made, "SVG", None)
    undo_correction(ann, made)
    assert to_spans(every(ann, ended=True)) == [("OSL", 3, None)]
    assert [each.value for each in known.list_wrong(ann)] == ["BGO"]
    with pytest.raises(StaleError):
        undo_correction(ann, made)


@pytest.mark.parametrize("by", ["agent", "model"])
def test_other_periods_of_a_wrong_value_stay_unless_they_are_chosen(
    agent: Agent, ann: Subject, by: Origin
) -> None:
    say(agent, ann, claim("BGO", 3, origin=by))
    say(agent, ann, claim("TRS", 31))
    seq = say(agent, ann, claim("BGO", 40, origin=by)).seq
    before = to_spans(every(ann, ended=True))
    made = correct_fact(ann, seq, "OSL", None)
    spans = [("BGO", 3, 31), ("TRS", 31, 40), ("OSL", 40, None)]
    assert to_spans(every(ann, ended=True)) == spans
    undo_correction(ann, made)
    assert to_spans(every(ann, ended=True)) == before
    seq, first = every(ann)[0].id, frozenset({to_day(3)})
    made = correct_fact(ann, seq, "OSL", None, periods=first)
    spans = [("OSL", 3, 31), ("TRS", 31, 40), ("OSL", 40, None)]
    assert to_spans(every(ann, ended=True)) == spans
    assert [each.value for each in known.list_wrong(ann)][:1] == ["BGO"]
    undo_correction(ann, made)
    assert to_spans(every(ann, ended=True)) == before
    seq = every(ann)[0].id
    with pytest.raises(StaleError):
        correct_fact(ann, seq, "OSL", None, periods=frozenset({to_day(4)}))


def test_value_that_goes_on_after_another_is_replaced_from_there(
    agent: Agent, ann: Subject
) -> None:
    say(agent, ann, claim("BGO", 3))
    say(agent, ann, claim("TRS", 31, 40))
    again = every(ann)[-1]
    assert (again.value, again.valid_from) == ("BGO", to_day(40))
    correct_fact(ann, again.id, "OSL", None)
    spans = [("BGO", 3, 31), ("TRS", 31, 40), ("OSL", 40, None)]
    assert to_spans(every(ann, ended=True)) == spans


def test_hidden_statement_does_not_come_before_the_value_that_hid_it(
    agent: Agent, ann: Subject
) -> None:
    say(agent, ann, claim("BGO", 3))
    say(agent, ann, claim("TRS", 3, 9))
    seq = say(agent, ann, claim("BGO", 20)).seq
    correct_fact(ann, seq, "OSL", None)
    assert to_spans(every(ann, ended=True)) == [("TRS", 3, 9), ("OSL", 9, None)]


def test_new_value_takes_no_end_that_a_later_value_makes(
    agent: Agent, ann: Subject
) -> None:
    seq = say(agent, ann, claim("OSL", 0)).seq
    later = say(agent, ann, claim("BGO", 31)).seq
    story = known.get_fact(ann, seq, now=clock.now(), valid_at=to_day(9))
    correction = Correction(value="SVG", since=None)
    command = corrections.build_correction(ann, story, correction, now=clock.now())
    made = homes.perform(ann, command, actor=OPERATOR).events[-1].seq
    spans = [("SVG", 0, 31), ("BGO", 31, None)]
    assert to_spans(every(ann, ended=True)) == spans
    retract(agent, ann, later)
    assert to_spans(every(ann, ended=True)) == [("SVG", 0, None)]
    undo_correction(ann, made)
    restored = every(ann, ended=True)
    assert to_spans(restored) == [("OSL", 0, None)]
    # The undo is a commit like a correction, and can be undone.
    undo_correction(ann, restored[0].id)
    assert to_spans(every(ann, ended=True)) == [("SVG", 0, None)]


def test_value_that_changed_ends_where_the_new_one_begins(
    agent: Agent, ann: Subject
) -> None:
    seq = say(agent, ann, claim("OSL", 0)).seq
    made = correct_fact(ann, seq, "BGO", 31)
    assert to_spans(every(ann, ended=True)) == [("OSL", 0, 31), ("BGO", 31, None)]
    undo_correction(ann, made)
    assert to_spans(every(ann, ended=True)) == [("OSL", 0, None)]


def test_correction_of_one_of_several_values_leaves_the_rest(
    agent: Agent, ann: Subject
) -> None:
    seq = say(agent, ann, claim("tea", 0, predicate="likes")).seq
    say(agent, ann, claim("jam", 1, predicate="likes"))
    made = correct_fact(ann, seq, "mate", 31)
    spans = [("tea", 0, 31), ("jam", 1, None), ("mate", 31, None)]
    assert to_spans(every(ann, ended=True)) == spans
    undo_correction(ann, made)
    spans = [("tea", 0, None), ("jam", 1, None)]
    assert to_spans(every(ann, ended=True)) == spans


def test_undo_keeps_the_source_and_stops_at_what_is_erased(
    agent: Agent, ann: Subject
) -> None:
    said = Event.objects.get(thread__name="visit", type="slot.appended").seq
    seq = say(agent, ann, claim("BGO", 3, source=("visit", said))).seq
    undo_correction(ann, correct_fact(ann, seq, "OSL", None))
    (fact,) = every(ann)
    assert [source.seq for source in fact.sources] == [said]
    made = correct_fact(ann, fact.id, "OSL", None)
    thread = Thread.objects.get(name="visit")
    forgetting.forget(ann, "record", thread=thread, seq=said, until="caches_purged")
    with pytest.raises(ContentErasedError):
        undo_correction(Subject.objects.get(id=ann.id), made)


def test_correction_that_says_nothing_new_is_refused(
    agent: Agent, ann: Subject
) -> None:
    seq = say(agent, ann, claim("OSL", 5)).seq
    for value, since, loc in (("OSL", None, "value"), ("BGO", 5, "since")):
        with pytest.raises(InvalidError) as refused:
            correct_fact(ann, seq, value, since)
        assert refused.value.loc == loc
    # What an agent asserted is no correction.
    with pytest.raises(FactUnknownError):
        undo_correction(ann, seq)


def list_texts(subject: Subject) -> list[str | None]:
    home = find_home(subject)
    assert home is not None
    return [view.text for view in blocks.list_blocks(home)]


def test_correction_changes_the_chosen_lines_in_its_commit(
    agent: Agent, ann: Subject
) -> None:
    seq = say(agent, ann, claim("Oslo", 0)).seq
    write(agent, ann, "guest", "Lives in OSLO.\r\nOslo S is near.\nLikes tea.")
    home = write(agent, ann, "trips", "Begin at Oslo")
    said = LineChoice("guest", 1, 1), LineChoice("trips", 1, 1)
    made = correct_fact(ann, seq, "New\nYork", None, *said)
    texts = ["Lives in New York.\r\nOslo S is near.\nLikes tea.", "Begin at New York"]
    assert list_texts(ann) == texts
    commit = Event.objects.filter(thread=home, seq__gt=home.head_seq)
    assert [*commit.order_by("seq").values_list("type", "actor")] == [
        ("page.updated", OPERATOR),
        ("page.updated", OPERATOR),
        ("fact.retracted", OPERATOR),
        ("fact.asserted", OPERATOR),
    ]
    # The undo finds a line that stands elsewhere now, and leaves a changed one.
    write(agent, ann, "guest", "Ann.\nLives in New York.\nLikes jam.")
    write(agent, ann, "trips", "Begin anywhere")
    undo_correction(ann, made)
    restored = ["Ann.\nLives in OSLO.\nLikes jam.", "Begin anywhere"]
    assert list_texts(ann) == restored
    (fact,) = every(ann, ended=True)
    assert to_spans([fact]) == [("Oslo", 0, None)]
    undo_correction(ann, fact.id)
    assert list_texts(ann)[0] == "Ann.\nLives in New York.\nLikes jam."
    rebuild(home)


def test_changed_block_refuses_the_correction_too(agent: Agent, ann: Subject) -> None:
    seq = say(agent, ann, claim("Oslo", 0)).seq
    write(agent, ann, "guest", "Lives in Oslo.")
    story = known.get_fact(ann, seq, now=clock.now())
    line = LineChoice("guest", 1, 1)
    correction = Correction(value="Bergen", since=None, lines=(line,))
    built = corrections.build_correction(ann, story, correction, now=clock.now())
    home = write(agent, ann, "guest", "Lives in Oslo, near the harbour.")
    with pytest.raises(StaleError):
        homes.perform(ann, built, actor=OPERATOR)
    for stale in (line, LineChoice("guest", 2, 2), LineChoice("other", 1, 1)):
        with pytest.raises(StaleError):
            correct_fact(ann, seq, "Bergen", None, stale)
    with pytest.raises(InvalidError):
        correct_fact(ann, seq, "Bergen", 100_000, LineChoice("guest", 2, 1))
    home.refresh_from_db()
    assert (home.head_seq, to_spans(every(ann))) == (4, [("Oslo", 0, None)])

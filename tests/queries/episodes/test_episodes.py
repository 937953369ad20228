"""Episodes: the exchanges of a subject, held against what was said one by one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from memoryhub.errors import BadCursorError
from memoryhub.journal.rows import totals
from memoryhub.kernel.threads.exchanges import RememberedCall, build_messages
from memoryhub.models.server.clock import clock
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.queries.episodes import episodes
from memoryhub.queries.episodes.episodes import (
    READ,
    SILENCE,
    EpisodeFilter,
    EpisodeView,
)
from memoryhub.queries.lists.cursors import iter_batches
from memoryhub.queries.threads.slots import list_newest_messages
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots, threads
from tests.cast import factories, forgetting
from tests.cast.factories import get_thread, make_slot, make_thread
from tests.services.acts import fork

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


@dataclass
class Talks:
    agent: Agent

    def say(self, thread: str, *messages: dict[str, Any]) -> None:
        made = [
            make_slot(each, type=f"chat.{each['role']}", from_name=each["role"])
            for each in messages
        ]
        factories.run(slots.append(agent=self.agent, thread=thread, slots=made))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.fixture
def talks(agent: Agent) -> Talks:
    for name in ("a", "b"):
        make_thread(agent, name, user_id="ann")
    return Talks(agent)


@pytest.fixture
def ann(talks: Talks) -> Subject:
    return forgetting.get_subject(talks.agent, "ann")


def list_views(subject: Subject, *, limit: int = 50, **where: Any) -> list[EpisodeView]:
    parts = iter_batches(
        lambda after: episodes.list_episodes(
            subject, EpisodeFilter(**where), now=clock.now(), after=after, limit=limit
        )
    )
    return [each for part in parts for each in part]


def list_words(found: list[EpisodeView]) -> list[tuple[str, str | None]]:
    return [
        (
            each.input.content["content"],
            each.output.content["content"] if each.output else None,
        )
        for each in found
    ]


def test_episode_is_a_question_with_all_that_followed(
    talks: Talks, ann: Subject
) -> None:
    use = RememberedCall(name="seats", arguments='{"row":12}', result="12A: free")
    talks.say("a", {"role": "system", "content": "Be brief."})
    talks.say("a", *build_messages("Is 12A free?", "Yes.", [use]))
    talks.say("a", user("Thanks."))
    later, first = list_views(ann)
    assert list_words([first, later]) == [("Is 12A free?", "Yes."), ("Thanks.", None)]
    assert (first.input.index, first.end, first.messages) == (1, 5, 4)
    ((line, call),) = first.tool_calls
    assert (call.name, call.arguments, line.index) == ("seats", '{"row":12}', 2)
    assert (first.over, later.over, first.cut) == (True, False, False)


def test_episodes_of_all_threads_are_in_the_order_of_time(
    talks: Talks, ann: Subject
) -> None:
    chance, expected = random.Random(5), list[tuple[str, str | None]]()
    for n in range(40):
        talks.say(chance.choice("ab"), user(f"q{n}"), assistant(f"r{n}"))
        expected.append((f"q{n}", f"r{n}"))
    for limit in (1, 7, 50):
        assert list_words(list_views(ann, limit=limit)) == expected[::-1]
    own = get_thread(talks.agent, "a")
    assert list_words(list_views(ann, thread=own, limit=3)) == list_words(
        [each for each in list_views(ann) if each.thread.id == own.id]
    )
    found = list_views(ann)
    begin, end = found[20].input.at, found[10].input.at
    assert list_words(list_views(ann, begin=begin, end=end)) == list_words(found[11:21])


def test_episode_list_shows_one_subject_only(talks: Talks, ann: Subject) -> None:
    make_thread(talks.agent, "c", user_id="bob")
    for name in ("c", "d", "a"):
        talks.say(name, user(name))
    assert list_words(list_views(ann)) == [("a", None)]
    bob = forgetting.get_subject(talks.agent, "bob")
    cursor = episodes.list_episodes(ann, now=clock.now(), limit=1).next
    assert cursor is None
    talks.say("a", user("again"))
    cursor = episodes.list_episodes(ann, now=clock.now(), limit=1).next
    with pytest.raises(BadCursorError):
        episodes.list_episodes(bob, now=clock.now(), after=cursor)


def test_exchange_is_over_when_its_thread_closes_or_falls_silent(
    talks: Talks, ann: Subject
) -> None:
    talks.say("a", user("Hello."), assistant("Hello."))
    now = clock.now()
    (found,) = episodes.list_episodes(ann, now=now).items
    assert not found.over
    quiet = found.ended_at + SILENCE
    assert episodes.list_episodes(ann, now=quiet).items[0].over
    assert not episodes.list_episodes(ann, now=quiet - SECOND).items[0].over
    factories.run(threads.close(agent=talks.agent, thread="a", reason="completed"))
    assert episodes.list_episodes(ann, now=now).items[0].over


def test_fork_shows_what_it_inherited_and_goes_on_with_it(
    talks: Talks, ann: Subject
) -> None:
    talks.say("a", user("one"), assistant("1"), user("two"))
    fork(talks.agent, "a", "f")
    talks.say("a", assistant("2 in a"))
    talks.say("f", assistant("2 in f"))
    talks.say("f", user("three"))
    own = get_thread(talks.agent, "f")
    shown = list_views(ann, thread=own, limit=2)
    assert list_words(shown) == [("three", None), ("two", "2 in f"), ("one", "1")]
    assert [each.input.inherited for each in shown] == [False, True, True]
    # Of the subject each is there once, as it went on where it was begun.
    assert list_words(list_views(ann)) == [
        ("three", None),
        ("two", "2 in a"),
        ("one", "1"),
    ]


def test_long_exchange_is_read_at_its_begin_and_its_end(
    talks: Talks, ann: Subject
) -> None:
    talks.say("a", user("Go on."), *[assistant(str(n)) for n in range(3 * READ)])
    (found,) = list_views(ann)
    assert (found.cut, found.messages) == (True, 3 * READ + 1)
    assert list_words([found]) == [("Go on.", str(3 * READ - 1))]


def test_episode_list_costs_a_constant_number_of_queries(
    talks: Talks, ann: Subject, django_assert_num_queries: Any
) -> None:
    for n in range(30):
        talks.say("ab"[n % 2], user("q"), assistant("r"))
    for limit in (1, 30):
        with django_assert_num_queries(3):
            episodes.list_episodes(ann, now=clock.now(), limit=limit)


def test_episode_counts_have_no_cap(talks: Talks, ann: Subject) -> None:
    """Erased messages are neither counted nor listed."""
    for _ in range(6):
        talks.say("a", *[user("q")] * 200)
    talks.say("b", user("q"))
    kept = totals.get(ann.id)
    assert (
        totals.count_records(kept, totals.EPISODES)
        == 1_201
        == len(list_views(ann, limit=200))
    )
    thread = get_thread(talks.agent, "b")
    seq = Slot.objects.get(thread=thread).seq
    forgetting.forget(ann, "record", until="tombstoned", thread=thread, seq=seq)
    assert totals.count_records(totals.get(ann.id), totals.EPISODES) == 1_200
    assert list_views(ann, thread=get_thread(talks.agent, "b")) == []


def test_message_limit_is_exact(talks: Talks) -> None:
    """Other messages in between do not count against the limit, also in a fork."""
    chance, spoken = random.Random(11), list[str]()
    roles = ("user", "assistant", "tool", "system")
    for n in range(60):
        role = chance.choice(roles)
        name = "a" if n < 40 else "f"
        if n == 40:
            fork(talks.agent, "a", "f")
        talks.say(name, {"role": role, "content": str(n)})
        if role in ("user", "assistant"):
            spoken.append(str(n))
    thread = get_thread(talks.agent, "f")
    for limit in (1, 2, 5, len(spoken) - 1, len(spoken), len(spoken) + 1, 200):
        found = list_newest_messages(thread, limit=limit)
        assert [each.content["content"] for each in found] == spoken[-limit:]

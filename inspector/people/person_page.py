"""The page of a person: facts, blocks, words, episodes, threads; each list is short.

Each part has its own limit in its statement. The cost does not grow with the memory of
the person, but for timelines with very many assertions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from inspector.drawing import first_words
from inspector.drawing.first_words import FirstWords
from inspector.web.visitors import Visitor
from inspector.words.record_words import RECORDS
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes import episodes
from memoryhub.queries.episodes.episodes import EpisodeView
from memoryhub.queries.knowledge import block_turns, blocks, facts
from memoryhub.queries.knowledge.blocks import BlockView
from memoryhub.queries.knowledge.facts import FactLine
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.people import profiles
from memoryhub.queries.people.profiles import Profile, TypeFigures
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.slots import SlotLine
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.turns import prices

#: Most lines of each part of the page.
FACTS: Final = 10
BLOCKS: Final = 10
EPISODES: Final = 5
THREADS: Final = 10
TURNS: Final = 5
#: Characters shown of a message, and of a block, a question or an answer.
_WORDS: Final = 220
_LINE: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntFact:
    """A fact with the message that it was learnt from first."""

    fact: FactLine
    #: Name of the message's thread; empty where no source was named.
    thread: str = ""
    seq: int = 0
    #: Index of the message; None for a source that is no message.
    slot: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWords:
    """A block with its first words."""

    view: BlockView
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeWords:
    """An episode with the first words of its question and of its answer."""

    episode: EpisodeView
    #: More of the question, for the list of recent words.
    words: FirstWords
    question: FirstWords
    answer: FirstWords | None


def build_context(
    visitor: Visitor, subject: Subject, *, now: datetime
) -> dict[str, Any]:
    """Build the page's body; note the threads whose content the body shows.

    At most 23 queries, for memory of any size.
    """
    home = find_home(subject)
    threads = profiles.list_sessions(subject, limit=THREADS)
    listed = episodes.list_episodes(subject, now=now, limit=EPISODES)
    # Some were recorded long after they were said.
    lately = sorted(listed.items, key=lambda each: each.occurred_at, reverse=True)
    learnt = _list_facts(subject, home, now=now)
    written = blocks.list_current(home, limit=BLOCKS + 1) if home else []
    visitor.note_threads(each.thread for each in listed.items)
    if home is not None and (learnt or written):
        visitor.note_threads([home])
    return {
        **profiles.find_seen(subject),
        "cost": prices.get_subject_cost(prices.get_table(visitor.project), subject),
        "learnt": learnt,
        "blocks": [_build_block_words(each) for each in written[:BLOCKS]],
        "more_blocks": len(written) > BLOCKS,
        "episodes": [_build_episode_words(each) for each in lately],
        "threads": [ThreadLine.from_row(each) for each in threads],
        "carriers": (
            block_turns.list_recent(home, threads, limit=TURNS) if home else []
        ),
        "home": home,
        "today": now.date().isoformat(),
    }


def to_minutes(day: datetime, *, now: datetime) -> int:
    """Convert a day to the minute since 1970 at which the day ends, at most now."""
    end = min(now, day + timedelta(days=1, minutes=-1))
    return int(end.timestamp() // 60)


def list_figures(profile: Profile, *, officer: bool) -> list[tuple[str, int]]:
    """List the counts of the person's data by kind."""
    found = [
        ("Threads", sum(profile.threads.values())),
        ("Events", profile.events),
        ("Messages", profile.slots),
        ("Episodes", profile.episodes),
        ("Blocks", profile.blocks),
        ("Facts", profile.facts),
        ("Episodes not searched for facts", profile.pending.waiting),
        ("Pages", profile.pages),
        ("Keys", profile.keys),
        *((name.capitalize(), count) for name, count in profile.counts.items()),
    ]
    if officer:
        found.append(("Tombstones", sum(profile.tombstones.values())))
    return found


def list_kinds(profile: Profile) -> list[tuple[str, TypeFigures]]:
    """List the figures by kind of record, in words, the most frequent kind first."""
    kinds = sorted(profile.kinds.items(), key=lambda each: -each[1].events)
    return [(RECORDS.get(name, name), figures) for name, figures in kinds]


def _list_facts(
    subject: Subject, home: Thread | None, *, now: datetime
) -> list[LearntFact]:
    """List the facts that hold now, each with its first source. Six queries."""
    found = facts.list_recent(home, at=now, limit=FACTS) if home else ()
    sources = {each.sources[0] for each in found if each.sources}
    indexes = slots.map_indexes(subject.project_id, sources)
    return [
        LearntFact(fact=each)
        if not each.sources
        else LearntFact(
            fact=each,
            thread=each.sources[0].thread,
            seq=each.sources[0].seq,
            slot=indexes.get(each.sources[0]),
        )
        for each in found
    ]


def _build_block_words(view: BlockView) -> BlockWords:
    words = first_words.cut_to_line(view.text or "", _LINE)
    return BlockWords(view=view, words=words)


def _build_episode_words(each: EpisodeView) -> EpisodeWords:
    question, answer = each.input, each.output
    return EpisodeWords(
        episode=each,
        words=_build_words(question, _WORDS),
        question=_build_words(question, _LINE),
        answer=_build_words(answer, _LINE) if answer else None,
    )


def _build_words(message: SlotLine, chars: int) -> FirstWords:
    return first_words.build_message_words(message.content, message.role, chars=chars)

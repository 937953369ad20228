from __future__ import annotations

from uuid import UUID

from inspector.replay.timeline import SPEEDS
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.threads.timeline import Bucket, Change, Marks, Moment
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import (
    APPENDED,
    BASE,
    CALL,
    ERASED,
    FRESH,
    GONE,
    OPEN,
    RESULT,
    SHUT,
    SOME,
    USER,
    Context,
    bubble,
    of_thread,
    told,
)

EARLY = ThreadState(id=OPEN.id, project=UUID(int=1), subject=OPEN.subject)
LATE = ThreadState(
    id=OPEN.id,
    project=UUID(int=1),
    subject=OPEN.subject,
    seq=1_204,
    status="open",
    inherited=40,
    slot_count=812,
    turn_count=260,
    token_count=418_230,
    byte_count=1_730_000,
)
CHANGES = (
    Change(name="status", before="open", after="closed"),
    Change(name="slot_count", before=811, after=812),
    Change(name="token_count", before=418_230, after=417_000),
    Change(name="types · chat.user", before=None, after=1),
    Change(name="labels", before=[], after=[["team", "red"]]),
)
MOVED = Moment(state=LATE, changes=CHANGES, chain="ab" * 32)
STILL = Moment(state=EARLY, changes=(), chain="")
ROLES = ("user", "assistant", "tool", "system", None)
BUCKETS = tuple(
    Bucket(
        first=n * 6 + 1,
        last=n * 6 + 6,
        slots=n % 7,
        turns=n % 3,
        tokens=2 ** (n % 12),
        role=ROLES[n % 5],
    )
    for n in range(200)
)
ONE = (Bucket(first=1, last=1),)
BETWEEN, ALONE = Marks(previous=3, next=60), Marks(previous=None, next=None)
AT: Context = {"marks": BETWEEN, "newer": 1_164, "unpinned": "", "untabbed": ""}
DECK: Context = {"speeds": SPEEDS, "unpinned": ""}
NO_CHANGE = "Nothing that is counted differs."

PATTERNS = (
    Pattern(
        template="inspector/threads/timeline/_scrubber.html",
        states={
            "followed": of_thread(minimap=BUCKETS, marks=BETWEEN, **DECK),
            "as of an event, a comparison kept": of_thread(
                at=40,
                live=False,
                carried=[("base", "3")],
                keep="&base=3",
                minimap=BUCKETS,
                marks=BETWEEN,
                **DECK,
            ),
            "one event, no mark": of_thread(FRESH, minimap=ONE, marks=ALONE, **DECK),
        },
    ),
    Pattern(
        template="inspector/threads/timeline/_minimap.html",
        states={
            "full": of_thread(minimap=BUCKETS),
            "one event": of_thread(FRESH, minimap=ONE),
            "none": of_thread(FRESH, minimap=()),
        },
    ),
    Pattern(
        template="inspector/threads/timeline/_minimap_table.html",
        states={"folded": {"minimap": BUCKETS[:20], "base": BASE}},
    ),
    Pattern(
        template="inspector/threads/timeline/_moment.html",
        states={
            "followed": of_thread(
                shown=SOME,
                first=1,
                moment=MOVED,
                event=told(APPENDED),
                message=bubble(USER),
                **AT,
            ),
            "as of an event, compared, messages": of_thread(
                shown=SOME,
                first=1,
                at=4,
                live=False,
                tab="messages",
                pinned=2,
                difference=CHANGES,
                bubbles=[bubble(USER), bubble(CALL)],
                **AT,
            ),
        },
    ),
    Pattern(
        template="inspector/threads/timeline/_events.html",
        states={
            "followed": of_thread(shown=SOME, first=1),
            "as of an event": of_thread(shown=SOME, first=1, at=4, live=False),
            "pushed": of_thread(shown=SOME[:2], first=1, pushed=True),
            "no event yet": of_thread(FRESH, shown=(), first=0, at=0),
        },
    ),
    Pattern(
        template="inspector/threads/timeline/_summary.html",
        states={
            "a message": of_thread(
                moment=MOVED, event=told(APPENDED), message=bubble(USER)
            ),
            "an erased message": of_thread(
                moment=MOVED, event=told(GONE), message=bubble(ERASED), live=False
            ),
            "an event without a message": of_thread(
                moment=STILL, event=told(SHUT), message=None
            ),
            "before the first event": of_thread(
                moment=STILL, event=None, message=None, at=0, live=False
            ),
        },
    ),
    Pattern(
        template="inspector/threads/timeline/_messages.html",
        states={
            "up to here": of_thread(
                bubbles=[bubble(USER), bubble(CALL), bubble(RESULT)]
            ),
            "erased": of_thread(bubbles=[bubble(ERASED)], at=4, live=False),
            "none": of_thread(FRESH, bubbles=[], at=1, live=False),
        },
    ),
    Pattern(
        template="inspector/threads/timeline/_changes.html",
        states={
            "some": {"changes": CHANGES, "nothing": NO_CHANGE},
            "none": {"changes": (), "nothing": NO_CHANGE},
        },
    ),
    Pattern(
        template="inspector/threads/timeline/_difference.html",
        states={
            "some": {"pinned": 3, "at": 40, "difference": CHANGES},
            "none": {"pinned": 40, "at": 40, "difference": ()},
        },
    ),
)

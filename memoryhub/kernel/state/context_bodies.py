"""Bodies of what a request was made of. Pydantic, frozen, strict."""

from __future__ import annotations

from memoryhub.kernel.state.bodies import Body, Count, Flag, Parts, Size, Token
from memoryhub.kernel.state.pages import Tier
from memoryhub.kernel.text.names import Name


class SectionBody(Body):
    """A part of a request: `contexts.Section`."""

    name: Token
    bytes: Size
    tokens: Count
    #: As `contexts.Ref` has them, but how much of a text is shown: that is sealed.
    refs: list[Parts]


class OfferedBody(Body):
    """A page that the manifest offers: `contexts.Row`."""

    page_id: Name
    tier: Tier
    levels: Token
    seq: Count
    key: Count = 0
    thread: Token | None = None


class MarkBody(Body):
    """What of a text no longer holds: `contexts.Mark`."""

    #: The subject's home thread.
    thread: Token
    since: Count | None = None
    begins: Flag = False
    holds: Count | None = None


class LogMarksBody(Body):
    """Marks of a slot that the log tells of: `contexts.SlotMarks`."""

    slot: Count
    marks: list[MarkBody]


class RecalledBody(Body):
    """A text that a turn brought along: how it was found, and its page."""

    source: Token
    #: In the thread's own history; None of another thread's.
    page_id: Name | None = None
    #: None: all of it holds, as far as is known.
    marks: list[MarkBody] | None = None


class RecallBody(Body):
    """What a turn brought along: `contexts.Recall`."""

    turn: Count
    texts: list[RecalledBody]


class ManifestBody(Body):
    """What the manifest said: `contexts.Manifest`, but for the thread's name."""

    turn: Count
    mapped: Count
    #: Faults allowed, faults a turn, faults left, fault tokens left.
    policies: list[Flag | Count]
    rows: list[OfferedBody]
    omitted: Count
    #: Hints have words that tell a page from others.
    telling: Flag = False

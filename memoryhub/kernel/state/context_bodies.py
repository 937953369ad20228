"""Event bodies of the parts of a packed request. Pydantic, frozen, strict."""

from __future__ import annotations

from memoryhub.kernel.state.bodies import Body, Count, Flag, Parts, Size, Token
from memoryhub.kernel.state.pages import Tier
from memoryhub.kernel.text.names import Name


class SectionBody(Body):
    """A part of a request: `contexts.Section`."""

    name: Token
    bytes: Size
    tokens: Count
    #: As in `contexts.Ref`, except how much of a text is shown, which is sealed.
    refs: list[Parts]


class OfferedBody(Body):
    """A page that the manifest offers: `contexts.ManifestRow`."""

    page_id: Name
    tier: Tier
    levels: Token
    seq: Count
    key: Count = 0
    thread: Token | None = None


class MarkBody(Body):
    """Claims of a text that no longer hold: `contexts.OutdatedMark`."""

    #: The subject's home thread.
    thread: Token
    since: Count | None = None
    begins: Flag = False
    holds: Count | None = None


class LogMarksBody(Body):
    """Marks of a slot that the log covers: `contexts.SlotMarks`."""

    slot: Count
    marks: list[MarkBody]


class RecalledBody(Body):
    """A text that a turn recalled: how the text was found, and its page."""

    source: Token
    #: Page in the thread's own history; None for a text of another thread.
    page_id: Name | None = None
    #: None: the whole text holds, as far as is known.
    marks: list[MarkBody] | None = None
    #: Level of a shortened text; None: the text is whole.
    level: Count | None = None


class RecallBody(Body):
    """Texts that a turn recalled: `contexts.TurnRecall`."""

    turn: Count
    texts: list[RecalledBody]


class ManifestBody(Body):
    """Contents of the manifest: `contexts.Manifest`, but for the thread's name."""

    turn: Count
    mapped: Count
    #: Faults allowed, faults a turn, faults left, fault tokens left.
    policies: list[Flag | Count]
    rows: list[OfferedBody]
    omitted: Count
    #: Whether hints have words that tell a page from others.
    telling: Flag = False

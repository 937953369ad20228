"""Message: the contents of a slot, in one form for every shape.

Pure. `reading` makes a message from any JSON. Text, weights, search, pages for people
and the four writers use the message. The content itself stays as it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from memoryhub.kernel.state.events import Role

#: API whose shape a part, call or thought came in; None for our own or an unknown
#: shape.
Vendor = Literal["chat", "responses", "anthropic", "gemini"]
PartKind = Literal["text", "image", "audio", "video", "file", "data"]
CallKind = Literal["function", "custom", "server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """Pixels, sound, film or a file, by reference or as base64."""

    mime_type: str | None = None
    #: Address of the medium. Base64 and file ids have their own fields.
    url: str | None = None
    base64: str | None = None
    file_id: str | None = None
    #: Name of a file.
    name: str | None = None
    #: Size in pixels.
    width: int | None = None
    height: int | None = None
    seconds: float | None = None
    pages: int | None = None
    #: Detail of an image in chat completions and Responses: low, high or auto.
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePart:
    """A piece of a message: a text, a medium or data."""

    kind: PartKind
    #: Substitute for a medium that a reader can't take: text, transcript, caption,
    #: title.
    words: str
    medium: Medium | None = None
    #: The part as it came, and the API of its shape; the same vendor's writer keeps
    #: members of it.
    sent: Any = None
    vendor: Vendor | None = None
    #: Texts and pictures of a document that has pictures; `words` has all as text.
    inner: tuple[MessagePart, ...] = ()
    #: Index of the message's step in which the part was said.
    step: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a tool."""

    #: Id of the call as a text; None if absent.
    id: str | None = None
    name: str | None = None
    #: Arguments as they came, as text; an object as its JSON.
    arguments: str = ""
    #: Arguments as an object, if they are an object.
    values: dict[str, Any] | None = None
    kind: CallKind = "function"
    sent: Any = None
    vendor: Vendor | None = None
    step: int = field(default=0, compare=False)
    #: Number of the message's calls and results that came before.
    place: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a call."""

    #: Id of the call; None if the result has none.
    id: str | None = None
    #: Name of the tool, if the result has it.
    name: str | None = None
    parts: tuple[MessagePart, ...] = ()
    failed: bool = False
    sent: Any = None
    vendor: Vendor | None = None
    step: int = field(default=0, compare=False)
    place: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """A reasoning or thinking item; opaque if signed."""

    #: Text that people may read, folded in pages. No writer writes it as text.
    words: str = ""
    sent: Any = None
    vendor: Vendor | None = None
    step: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The contents of one slot."""

    #: Role given by the client, else by the shape, else by the slot's type, else None.
    role: Role | None = None
    #: Name of the speaker.
    name: str | None = None
    parts: tuple[MessagePart, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    refusal: str | None = None
    thoughts: tuple[Thought, ...] = ()
    #: Names of members that no known shape has.
    extras: tuple[str, ...] = ()
    #: Phase of each step, as Responses names it; empty for one step without a phase. A
    #: step has thoughts, then parts, then calls and results.
    phases: tuple[str | None, ...] = ()
    #: Cache of the written message, freed with the message.
    kept: list[Any] = field(init=False, default_factory=list, compare=False, repr=False)

    @property
    def is_plain(self) -> bool:
        """Whether the message has no calls, results or thoughts."""
        return not (self.calls or self.results or self.thoughts)

    @property
    def speaker(self) -> Role | None:
        """Role of the message's slot; some APIs have tool results in a user message."""
        return "tool" if self.role == "user" and self.results else self.role

"""Message: what a slot's content says, whatever the shape it came in.

Pure. `reading` makes one of any JSON; text, weights, search, pages for people and the
three writings are made of it. Content itself stays as it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from memoryhub.kernel.state.events import Role

#: Whose shape a part, call or thought came in; None for our own and for no one's.
Vendor = Literal["chat", "responses", "anthropic"]
PartKind = Literal["text", "image", "audio", "video", "file", "data"]
CallKind = Literal["function", "custom", "server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """Pixels, sound, film or a file, by reference or as base64."""

    mime_type: str | None = None
    #: Of an address the text of it; base64 and ids of files stand beside.
    url: str | None = None
    base64: str | None = None
    file_id: str | None = None
    #: Of a file its name.
    name: str | None = None
    #: Pixels.
    width: int | None = None
    height: int | None = None
    seconds: float | None = None
    pages: int | None = None
    #: Of an image in chat completions and Responses: low, high or auto.
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of what is said."""

    kind: PartKind
    #: What somebody gets who can't take the medium: text, transcript, caption, title.
    words: str
    medium: Medium | None = None
    #: As it came, and in whose shape: what the same vendor's writing keeps of it.
    sent: Any = None
    vendor: Vendor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a tool."""

    #: As a text; None where there is none.
    id: str | None = None
    name: str | None = None
    #: As they came, as text: of an object its JSON.
    arguments: str = ""
    #: The same as an object, if they are one.
    values: dict[str, Any] | None = None
    kind: CallKind = "function"
    sent: Any = None
    vendor: Vendor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a call gave back."""

    #: Of the call; None where it does not say.
    id: str | None = None
    #: Of the tool, if it says so.
    name: str | None = None
    parts: tuple[Part, ...] = ()
    failed: bool = False
    sent: Any = None
    vendor: Vendor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """A reasoning or thinking item; opaque where it is signed."""

    #: What people may read of it, folded. Never written as text.
    words: str = ""
    sent: Any = None
    vendor: Vendor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one slot says."""

    #: What the client says, else the shape's own, else the slot's type's, else None.
    role: Role | None = None
    #: Of the speaker.
    name: str | None = None
    parts: tuple[Part, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    refusal: str | None = None
    thoughts: tuple[Thought, ...] = ()
    #: Names of members that no shape of ours knows.
    extras: tuple[str, ...] = ()
    #: How it was written before: that lives and ends with it.
    kept: list[Any] = field(init=False, default_factory=list, compare=False, repr=False)

    @property
    def is_plain(self) -> bool:
        """Whether all that it says are its parts."""
        return not (self.calls or self.results or self.thoughts)

    @property
    def speaker(self) -> Role | None:
        """Whose slot it is: some APIs have the user say what tools gave back."""
        return "tool" if self.role == "user" and self.results else self.role

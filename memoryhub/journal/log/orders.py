"""Orders handed to the writer, and the receipts that come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from memoryhub.kernel.commands import (
    Command,
    CreateThread,
    EraseRecords,
    EraseThread,
)
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.subjects import Subject

EventType = TypeVar("EventType", bound=EventBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewThread:
    """Instruction to create the thread in the same transaction if its name is new."""

    subject: UUID
    command: CreateThread
    #: Inserts the subject's row in that transaction, where the subject is new as well;
    #: returns the row of another id that the person has by now, if any.
    insert_subject: Callable[[], Subject] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A thread addressed by its project and name."""

    project: UUID
    name: str
    #: None: an unknown name is refused with NotFoundError.
    birth: NewThread | None = None
    #: The name must be free; the command itself makes the thread.
    fresh: bool = False
    #: The subject that a key is bound to; threads of others are not found.
    bound: UUID | None = None
    #: The name was given by such a bound key.
    called: bool = False
    #: A subject's home thread; made anew if the last one was erased.
    home: bool = False

    @classmethod
    def build_home(
        cls, project: UUID, subject: UUID, *, bound: UUID | None = None
    ) -> Address:
        """Return the address of a subject's home thread, which is made if absent."""
        command = CreateThread(
            subject=subject, config=ThreadConfig(blocks=False), home=True
        )
        return cls(
            project=project,
            name=names.build_home_name(subject),
            birth=NewThread(subject=subject, command=command),
            bound=bound,
            home=True,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names under which the thread may be stored, the first for a new thread.

        Other keys name threads of the subject too: a bound key finds those threads as
        well.
        """
        if not self.called:
            return (self.name,)
        assert self.bound is not None
        return (names.add_subject(self.bound, self.name), self.name)

    def can_reach(self, subject: UUID) -> bool:
        """Return whether the name can mean a thread of the subject."""
        return not self.called or subject == self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """An Idempotency-Key and the bytes that a repeat must have in common."""

    key: str
    #: Route template and canonical body; kept as a keyed digest only.
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command on its way: its address, its actor and its conditions."""

    address: Address
    command: Command
    #: `agent:<key prefix>`, `operator:<id>`, `import`, `worker:<kind>`,
    #: `eraser:<erasure>`.
    actor: str
    #: The head seq that the sender saw; a different head raises StaleError.
    if_match: int | None = None
    #: The subject's epoch when the texts behind the command were read; a different
    #: epoch raises StaleError, because something was erased since.
    epoch: int | None = None
    request: KeyedRequest | None = None
    #: Bytes counted against the queue's bound.
    size: int = 0

    @property
    def is_erasure(self) -> bool:
        """Whether the eraser sent it: accepted in every state of the subject."""
        return isinstance(self.command, EraseThread | EraseRecords)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReceipt:
    """Result of a committed command: the events that it led to, oldest first."""

    thread: UUID
    subject: UUID
    #: The name by which the order addressed the thread.
    name: str
    #: The thread's head after the command.
    seq: int
    events: tuple[RecordedEvent, ...]
    #: Turns that had begun once the command was done.
    turn: int
    #: The thread did not exist before.
    created: bool = False
    #: Served before under the same Idempotency-Key; nothing was written.
    replayed: bool = False
    #: The thread after the command; None when it was served before.
    state: ThreadState | None = None

    def get_event(self, kind: type[EventType]) -> EventType:
        """Return the only event of a kind."""
        (event,) = self.list_events(kind)
        return event

    def list_events(self, kind: type[EventType]) -> list[EventType]:
        return [each.event for each in self.events if isinstance(each.event, kind)]

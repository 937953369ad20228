"""What is handed to the writer, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from memoryhub.kernel.commands import (
    Command,
    CreateThread,
    EraseRecords,
    EraseThread,
)
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.events import Limits
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names

EventType = TypeVar("EventType", bound=Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """How to make the thread when its name is new, in the same transaction."""

    subject: UUID
    command: CreateThread


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A thread by its project and name."""

    project: UUID
    name: str
    #: None: a name that is unknown is refused with NotFoundError.
    birth: Birth | None = None
    #: The name must be free; the command itself makes the thread.
    fresh: bool = False
    #: The subject that a key is bound to; threads of others are not found.
    bound: UUID | None = None
    #: The name is what such a key says.
    called: bool = False
    #: It is a subject's home thread, made anew after one that was erased.
    home: bool = False

    @classmethod
    def of_home(
        cls, project: UUID, subject: UUID, *, bound: UUID | None = None
    ) -> Address:
        """Return the home thread of a subject of the project, made if it is absent."""
        command = CreateThread(subject=subject, config=Limits(blocks=False), home=True)
        return cls(
            project=project,
            name=names.home(subject),
            birth=Birth(subject=subject, command=command),
            bound=bound,
            home=True,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Under which the thread may be stored, the first for a new one.

        Others name threads of the subject too: those are found by a bound key as well.
        """
        if not self.called:
            return (self.name,)
        assert self.bound is not None
        return (names.of_subject(self.bound, self.name), self.name)

    def reaches(self, subject: UUID) -> bool:
        """Return whether the name can mean a thread of the subject."""
        return not self.called or subject == self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An Idempotency-Key and the bytes that a repeat must have in common."""

    key: str
    #: Route template and canonical body; kept as a keyed digest only.
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command on its way: to whom, from whom, under which conditions."""

    address: Address
    command: Command
    #: `agent:<key prefix>`, `operator:<id>`, `import`, `worker:<kind>`,
    #: `eraser:<erasure>`.
    actor: str
    #: The head seq that the sender saw; another one is a StaleError.
    if_match: int | None = None
    #: The subject's epoch in which the texts were read that the command was made of;
    #: another one is a StaleError, for something was erased since.
    epoch: int | None = None
    request: Request | None = None
    #: Bytes it weighs against the queue's bound.
    size: int = 0

    @property
    def erases(self) -> bool:
        """Whether it is the eraser's: let through whatever the subject's state is."""
        return isinstance(self.command, EraseThread | EraseRecords)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A command is on disk: the events it led to, oldest first."""

    thread: UUID
    subject: UUID
    #: As it was addressed.
    name: str
    #: The thread's head after the command.
    seq: int
    events: tuple[Recorded, ...]
    #: Turns that had begun once the command was done.
    turn: int
    #: The thread did not exist before.
    created: bool = False
    #: Served before under the same Idempotency-Key; nothing was written.
    replayed: bool = False
    #: The thread after the command; None when it was served before.
    state: ThreadState | None = None

    def one(self, kind: type[EventType]) -> EventType:
        """Return the only event of a kind."""
        (event,) = self.all(kind)
        return event

    def all(self, kind: type[EventType]) -> list[EventType]:
        return [each.event for each in self.events if isinstance(each.event, kind)]

from __future__ import annotations

from typing import Final

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, Reference, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import NameField
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread

#: Condition on slots that lists show.
SHOWN: Final = models.Q(erased=False, struck_seq=None)


class Slot(models.Model):
    """One appended message; its content is the payload of event (thread, seq)."""

    pk = models.CompositePrimaryKey("thread_id", "index")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="slots", db_index=False
    )
    index = models.BigIntegerField()
    seq = models.BigIntegerField()
    turn = models.BigIntegerField()
    from_name = NameField()
    to_name = NameField()
    type = NameField()
    role = models.CharField(max_length=9, null=True)
    tokens = models.IntegerField()
    bytes = models.IntegerField()
    #: Time of the slot's event.
    at = models.DateTimeField()
    #: Subject of a user's message, which begins an episode, to find a subject's
    #: episodes across its threads. None in other slots.
    subject = models.ForeignKey(
        Subject, models.PROTECT, related_name="+", db_index=False, null=True
    )
    erased = models.BooleanField(default=False)
    #: Seq of the slot.struck event.
    struck_seq = models.BigIntegerField(null=True)

    privacy = Privacy(
        subject="thread__subject",
        exported="events.jsonl",
        forget=Fate.DELETED,
        read_by_forks=True,
        holds=parse_fields(
            id="thread subject",
            number="index seq turn tokens bytes struck_seq",
            name="from_name to_name type",
            word="role erased",
            time="at",
        ),
    )

    class Meta:
        indexes = [
            # Slots of one type or sender, and the slots as of a seq.
            models.Index(fields=["thread", "type", "index"], name="slot_type"),
            models.Index(fields=["thread", "from_name", "index"], name="slot_from"),
            models.Index(fields=["thread", "seq"], name="slot_seq"),
            # Episodes: of a subject by time, and of a thread, each up to the next.
            models.Index(
                fields=["subject", "-at", "-thread", "-index"],
                condition=models.Q(role="user"),
                name="episode_at",
            ),
            models.Index(
                fields=["thread", "index"],
                condition=models.Q(role="user"),
                name="episode_begins",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.index}"


class Turn(models.Model):
    """One model call of the agent."""

    pk = models.CompositePrimaryKey("thread_id", "n")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="turns", db_index=False
    )
    n = models.BigIntegerField()
    #: Seq of the turn.began event.
    seq = models.BigIntegerField()
    #: Seq of the turn.packed event; None while no request is recorded.
    packed_seq = models.BigIntegerField(null=True)
    #: JSON: cumulative paging counts at the turn's begin; charts take differences.
    counters = models.TextField(default="{}")

    privacy = Privacy(
        subject="thread__subject",
        exported="events.jsonl",
        forget=Fate.DELETED,
        read_by_forks=True,
        holds=parse_fields(
            id="thread", number="n seq packed_seq", number_word="counters"
        ),
    )

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.n}"


class MarkedTurn(models.Model):
    """A marked turn, inherited marks included: its answer is wrong or good."""

    pk = models.CompositePrimaryKey("thread_id", "turn")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="marked_turns", db_index=False
    )
    turn = models.BigIntegerField()
    #: The thread's project and subject, so that a list reads no other's marks.
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="+", db_index=False
    )
    subject = models.ForeignKey(
        Subject, models.PROTECT, related_name="+", db_index=False
    )
    mark = models.CharField(max_length=5)
    at = models.DateTimeField()
    by = models.CharField(max_length=64)
    #: The event whose payload holds the comment; in a fork it may be an ancestor's.
    event_thread = models.UUIDField()
    event_seq = models.BigIntegerField()

    privacy = Privacy(
        subject="thread__subject",
        exported="state/marks.jsonl",
        forget=Fate.DELETED,
        references=(Reference("event_thread", "event_seq"),),
        holds=parse_fields(
            id="thread project subject event_thread",
            number="turn event_seq",
            word="mark",
            time="at",
            id_word="by",
        ),
    )

    class Meta:
        indexes = [
            # Marked turns of a project, or of a subject, newest first.
            models.Index(
                fields=["project", "-at", "-thread", "-turn"], name="marked_turn_at"
            ),
            models.Index(
                fields=["project", "mark", "-at", "-thread", "-turn"],
                name="marked_turn_word",
            ),
            models.Index(
                fields=["subject", "-at", "-thread", "-turn"],
                name="marked_turn_subject",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.turn}"

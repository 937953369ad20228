from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import Thread


class ProjectHour(models.Model):
    """Activity counts of a project in one interval; numbers alone.

    Every process adds its counts to a row of one, 15 and 60 minutes each.
    """

    pk = models.CompositePrimaryKey("project_id", "minutes", "at")
    project = models.ForeignKey(
        Project, models.CASCADE, related_name="+", db_index=False
    )
    #: Length of the interval, and its begin (UTC, a multiple of the length).
    minutes = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    events = models.BigIntegerField(default=0)
    #: Model calls begun, tokens of packed requests, tokens of prefixes shared with the
    #: request before, and tokens of the model's messages in turns.
    turns = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    prefix_tokens = models.BigIntegerField(default=0)
    answer_tokens = models.BigIntegerField(default=0)
    #: Exchanges begun, and exchanges with a page fault.
    exchanges = models.BigIntegerField(default=0)
    faulted_exchanges = models.BigIntegerField(default=0)
    faults = models.BigIntegerField(default=0)
    refaults = models.BigIntegerField(default=0)
    #: Commands of agents, by milliseconds until the commit was on disk.
    within_1 = models.BigIntegerField(default=0)
    within_2 = models.BigIntegerField(default=0)
    within_5 = models.BigIntegerField(default=0)
    within_10 = models.BigIntegerField(default=0)
    within_20 = models.BigIntegerField(default=0)
    within_50 = models.BigIntegerField(default=0)
    within_100 = models.BigIntegerField(default=0)
    within_200 = models.BigIntegerField(default=0)
    within_500 = models.BigIntegerField(default=0)
    within_1000 = models.BigIntegerField(default=0)
    slower = models.BigIntegerField(default=0)
    #: Answers that came right after their request, by milliseconds between the two.
    answered_250 = models.BigIntegerField(default=0)
    answered_500 = models.BigIntegerField(default=0)
    answered_1000 = models.BigIntegerField(default=0)
    answered_2000 = models.BigIntegerField(default=0)
    answered_4000 = models.BigIntegerField(default=0)
    answered_8000 = models.BigIntegerField(default=0)
    answered_16000 = models.BigIntegerField(default=0)
    answered_32000 = models.BigIntegerField(default=0)
    answered_64000 = models.BigIntegerField(default=0)
    answered_later = models.BigIntegerField(default=0)

    privacy = Privacy(
        holds=parse_fields(
            id="project",
            time="at",
            number="minutes events turns tokens prefix_tokens answer_tokens exchanges"
            " faulted_exchanges faults refaults within_1 within_2 within_5 within_10"
            " within_20 within_50 within_100 within_200 within_500 within_1000 slower"
            " answered_250 answered_500 answered_1000 answered_2000 answered_4000"
            " answered_8000 answered_16000 answered_32000 answered_64000"
            " answered_later",
        ),
    )

    def __str__(self) -> str:
        return f"{self.project_id}/{self.minutes}@{self.at}"


class ModelHour(models.Model):
    """Language model use of a project in one hour; numbers alone.

    A run is one or more calls of a role for one purpose.
    """

    pk = models.CompositePrimaryKey("project_id", "at", "role", "outcome")
    project = models.ForeignKey(
        Project, models.CASCADE, related_name="+", db_index=False
    )
    #: Begin of the hour (UTC).
    at = models.DateTimeField()
    #: Asking role and result, as words of the server.
    role = models.CharField(max_length=20)
    outcome = models.CharField(max_length=20)
    runs = models.BigIntegerField(default=0)
    calls = models.BigIntegerField(default=0)
    #: Tokens of questions and answers.
    tokens = models.BigIntegerField(default=0)

    privacy = Privacy(
        holds=parse_fields(
            id="project", time="at", word="role outcome", number="runs calls tokens"
        ),
    )

    def __str__(self) -> str:
        return f"{self.project_id}/{self.role}/{self.outcome}@{self.at}"


class RefusalCount(models.Model):
    """Count of answers with one refusal code in one interval.

    Rows without a thread count the whole project by 1, 15 and 60 minutes. Rows with a
    thread count that thread by the hour.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, models.CASCADE, related_name="+", db_index=False
    )
    thread = models.ForeignKey(
        Thread, models.CASCADE, null=True, related_name="+", db_index=False
    )
    minutes = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    #: Code of the refusal, a word of the server.
    code = models.CharField(max_length=40)
    count = models.BigIntegerField(default=0)

    privacy = Privacy(
        subject="thread__subject",
        forget=Fate.DELETED,
        passing=True,
        holds=parse_fields(
            id="id project thread", number="minutes count", time="at", word="code"
        ),
    )

    class Meta:
        constraints = [
            # Targets of the upserts. Charts read along the first; per-thread refusals
            # are read and deleted along the second.
            models.UniqueConstraint(
                name="refusals_of_project",
                fields=["project", "minutes", "at", "code"],
                condition=models.Q(thread__isnull=True),
            ),
            models.UniqueConstraint(
                name="refusals_of_thread",
                fields=["thread", "at", "code"],
                condition=models.Q(thread__isnull=False),
            ),
        ]
        indexes = [
            # List of refusals of threads, newest first.
            models.Index(
                fields=["project", "-at"],
                name="refusals_listed",
                condition=models.Q(thread__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import Thread


class ProjectHour(models.Model):
    """What was counted of a project in a stretch of time; numbers alone.

    Every process adds what it did to a row of one, 15 and 60 minutes each.
    """

    pk = models.CompositePrimaryKey("project_id", "minutes", "at")
    project = models.ForeignKey(
        Project, models.CASCADE, related_name="+", db_index=False
    )
    #: How long the stretch is, and when it begins (UTC, whole stretches).
    minutes = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    events = models.BigIntegerField(default=0)
    #: Model calls that began, the tokens of the requests that were packed, and how many
    #: of these a request had in common with the one before.
    turns = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    prefix_tokens = models.BigIntegerField(default=0)
    #: Exchanges that began, and those in which a page had to be fetched.
    exchanges = models.BigIntegerField(default=0)
    faulted_exchanges = models.BigIntegerField(default=0)
    faults = models.BigIntegerField(default=0)
    refaults = models.BigIntegerField(default=0)
    #: Commands of agents, by the milliseconds within which they were on disk.
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

    privacy = Privacy(
        holds=fields(
            id="project",
            time="at",
            number="minutes events turns tokens prefix_tokens exchanges"
            " faulted_exchanges faults refaults within_1 within_2 within_5 within_10"
            " within_20 within_50 within_100 within_200 within_500 within_1000 slower",
        ),
    )

    def __str__(self) -> str:
        return f"{self.project_id}/{self.minutes}@{self.at}"


class ModelHour(models.Model):
    """What the language model was asked of a project in an hour; numbers alone.

    Asked by a role, for one purpose at a time: that is a run, of one call or more.
    """

    pk = models.CompositePrimaryKey("project_id", "at", "role", "outcome")
    project = models.ForeignKey(
        Project, models.CASCADE, related_name="+", db_index=False
    )
    #: When the hour begins (UTC).
    at = models.DateTimeField()
    #: Who asked, and what became of it: words of ours.
    role = models.CharField(max_length=20)
    outcome = models.CharField(max_length=20)
    runs = models.BigIntegerField(default=0)
    calls = models.BigIntegerField(default=0)
    #: Of questions and answers.
    tokens = models.BigIntegerField(default=0)

    privacy = Privacy(
        holds=fields(
            id="project", time="at", word="role outcome", number="runs calls tokens"
        ),
    )

    def __str__(self) -> str:
        return f"{self.project_id}/{self.role}/{self.outcome}@{self.at}"


class RefusalCount(models.Model):
    """How often a code was answered in a stretch of time.

    Without a thread: in the whole project, of one, 15 and 60 minutes. With one: of it
    alone, and by the hour.
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
    #: Of the refusal: a word of ours.
    code = models.CharField(max_length=40)
    count = models.BigIntegerField(default=0)

    privacy = Privacy(
        subject="thread__subject",
        forget=Fate.DELETED,
        passing=True,
        holds=fields(
            id="id project thread", number="minutes count", time="at", word="code"
        ),
    )

    class Meta:
        constraints = [
            # Where what is counted is added; the chart reads along the first, what is
            # refused to a thread and goes with it along the second.
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
            # The list of what was refused to threads, newest first.
            models.Index(
                fields=["project", "-at"],
                name="refusals_listed",
                condition=models.Q(thread__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

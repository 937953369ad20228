"""Schemas of observations and of a thread's observer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from memoryhub.api.document.fields import (
    FieldRefusedError,
    In,
    Limit,
    Out,
    Time,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.memory_fields import build_size_check
from memoryhub.api.document.samples import AT, PLACE, THREAD_NAME
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.kernel.observing.answers import MAX_HINT, MAX_LINE
from memoryhub.kernel.observing.lines import Mark, ObservationLine, is_line, make_line
from memoryhub.kernel.state.observing import ObserverRole
from memoryhub.models.projects import MOST_INSTRUCTION_BYTES
from memoryhub.queries.observing.instructions import ROLES
from memoryhub.queries.observing.observers import (
    Generation,
    ObservationView,
    Observer,
    ObserverRun,
    Standing,
)

_MAX_LINES: Final = 500
_LINE: Final[dict[str, Any]] = {
    "at": "2026-03-01T09:30:00+00:00",
    "mark": "critical",
    "text": "Wants seat 12A.",
    "slots": [0, 0],
}
_RANGE: Final = {"from": 0, "to": 4}
_OBSERVATION: Final[dict[str, Any]] = {
    "page_id": "obs-43",
    "seq": 43,
    "at": AT,
    **_RANGE,
    "state": "waiting",
    "method": "agent",
    "tokens": 31,
    "raw_tokens": 412,
    "tokens_in": 0,
    "tokens_out": 0,
    "cost": None,
    "host": None,
    "prompt": None,
    "covers": None,
    "lines": [_LINE],
    "hints": ["current task: Book the seat."],
}
_INSTRUCTIONS: Final = {"observer": "Keep order numbers.", "reflector": None}
_RUN: Final = {
    "seq": 43,
    "at": AT,
    "role": "observer",
    **_RANGE,
    "outcome": "agent",
    "page_id": "obs-43",
    **{name: _OBSERVATION[name] for name in ("tokens_in", "tokens_out")},
    "cost": None,
    "host": None,
}
_GENERATION: Final = {
    "generation": 1,
    "seq": 90,
    "at": AT,
    "page_id": "ref-89",
    "replaced": ["obs-43", "obs-61"],
    "log_tokens_before": 900,
    "log_tokens": 430,
}
_OBSERVER: Final[dict[str, Any]] = {
    "settings": {
        "observe": True,
        "observe_at": 0.9,
        "observe_cycles": 4,
        "observe_keep_tokens": 6000,
        "reflect_at": 0.2,
    },
    "paused": True,
    "epoch": 0,
    "generation": 0,
    "slots": 6,
    "cursor": 0,
    "watermark": 4,
    "gaps": [],
    "window_tokens": 24000,
    "need_tokens": 660,
    "utilization": 0.0275,
    "pinned_tokens": 0,
    "log_tokens": 0,
    "uncovered_tokens": 660,
    "waiting_tokens": 460,
    "unobserved_tokens": 176,
    "interval_tokens": 5235,
    "keep_tokens": 4800,
    "activate_at_tokens": 21600,
    "reflect_at_tokens": 4800,
    "due": False,
    "in_flight": None,
    "failures": {
        "observer": {"times": 0, "retry_at": None},
        "reflector": {"times": 0, "retry_at": None},
    },
}


def _build_line_check(most: int, *, least: int) -> AfterValidator:
    """Build a check of a one-line text of at most `most` characters, not blank if
    required."""

    def check(text: str) -> str:
        if len(text) > most:
            raise FieldRefusedError("value")
        if least and not is_line(text):
            raise FieldRefusedError("value", allowed="more than blanks")
        return text

    return AfterValidator(check)


def _build_text_schema(most: int, *, least: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "minLength": least, "maxLength": most})


LineText = Annotated[
    str, _build_line_check(MAX_LINE, least=1), _build_text_schema(MAX_LINE, least=1)
]
HintText = Annotated[
    str, _build_line_check(MAX_HINT, least=0), _build_text_schema(MAX_HINT, least=0)
]
Index = Annotated[
    int, build_range_check(0, 2**31 - 1), build_range_schema(0, 2**31 - 1)
]


def _check_slots(slots: list[int] | None) -> list[int] | None:
    if slots is not None and (len(slots) not in (1, 2) or slots[0] > slots[-1]):
        raise FieldRefusedError("value")
    return slots


def _check_lines(lines: list[LineIn]) -> list[LineIn]:
    if not 1 <= len(lines) <= _MAX_LINES:
        raise FieldRefusedError("value")
    return lines


class LineIn(In):
    at: Time | None = Field(None, description="When it was said; kept to the minute.")
    mark: Mark
    text: LineText
    slots: Annotated[
        list[Index] | None,
        AfterValidator(_check_slots),
        Field(
            description="The first and the last message that it was made of; absent: "
            "all of the range.",
            json_schema_extra={"minItems": 1, "maxItems": 2},
        ),
    ] = None


class ObservationIn(In):
    model_config = build_example(
        {**_RANGE, "epoch": 0, "lines": [_LINE], "current_task": "Book the seat."}
    )

    begin: Index = Field(
        alias="from", description="The first message: the `watermark`, or a gap's."
    )
    end: Index = Field(alias="to", description="The message behind the last.")
    epoch: Index = Field(description="The observer's, in which they were read.")
    lines: Annotated[
        list[LineIn],
        AfterValidator(_check_lines),
        Field(json_schema_extra={"minItems": 1, "maxItems": _MAX_LINES}),
    ]
    current_task: HintText | None = None
    suggested_response: HintText | None = None

    @model_validator(mode="after")
    def in_the_range(self) -> Self:
        for number, line in enumerate(self.lines):
            found = line.slots or [self.begin]
            if not self.begin <= found[0] <= found[-1] < max(self.end, self.begin + 1):
                loc = ("lines", number, "slots")
                raise FieldRefusedError(
                    "value", allowed="messages of the range", loc=loc
                )
        return self

    def to_lines(self) -> list[ObservationLine]:
        """Convert the lines to stored lines."""
        return [
            make_line(
                each.text,
                first=each.slots[0] if each.slots else self.begin,
                end=each.slots[-1] + 1 if each.slots else self.end,
                mark=each.mark,
                at=each.at,
            )
            for each in self.lines
        ]


_InstructionText = Annotated[str, build_size_check(MOST_INSTRUCTION_BYTES)]


class InstructionsIn(In):
    model_config = build_example(_INSTRUCTIONS)

    observer: _InstructionText | None = Field(
        None, description="To the observer: at most 8 KiB of UTF-8."
    )
    reflector: _InstructionText | None = Field(
        None, description="To the reflector: at most 8 KiB of UTF-8."
    )

    def to_texts(self) -> dict[ObserverRole, str | None]:
        """Return the texts by role; absent roles stay as they are."""
        sent = {"observer": self.observer, "reflector": self.reflector}
        return {role: sent[role] for role in ROLES if role in self.model_fields_set}


class ObservationsQuery(AsOf, Pagination):
    state: Literal["waiting", "log"] | None = Field(
        None,
        description="What waits to come into requests, or what stands in them: in "
        "order, all at once, those of ancestors too. Absent: the thread's own.",
    )


class GenerationsQuery(AsOf):
    limit: Limit = 50


class LineOut(Out):
    at: datetime | None = Field(description="When it was said, to the minute.")
    mark: Mark
    text: str
    slots: list[int] = Field(description="The first and the last message of it.")

    @classmethod
    def from_line(cls, line: ObservationLine) -> Self:
        return cls.from_record(line, slots=[line.first, line.end - 1])


class ObservationOut(Out):
    """An observation, or a reflection that covers others."""

    page_id: str
    seq: int = Field(description="Of `page.created`, an ancestor's maybe.")
    at: datetime
    begin: int = Field(alias="from", description="The first message.")
    end: int = Field(alias="to", description="The message behind the last.")
    state: Standing = Field(validation_alias="standing", description="Where it stands.")
    method: str = Field(description="`model`, `extractive` or `agent`.")
    tokens: int = Field(description="Of its text in a request.")
    raw_tokens: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    host: str | None
    prompt: str | None
    covers: list[str] | None
    lines: list[LineOut] | None
    hints: list[str]

    @classmethod
    def from_view(cls, found: ObservationView) -> Self:
        lines, body = found.lines, found.body
        taken = ("method", "tokens_in", "tokens_out", "cost", "host", "prompt")
        return cls(
            **{name: getattr(body, name) for name in (*taken, "covers")},
            **{name: getattr(found, name) for name in ("page_id", "seq", "at")},
            begin=found.begin,
            end=found.end,
            state=found.standing,
            tokens=body.shown,
            raw_tokens=body.raw,
            lines=None
            if lines is None
            else [LineOut.from_line(each) for each in lines],
            hints=[*found.hints],
        )


class ObservationsOut(Out):
    model_config = build_example({"items": [_OBSERVATION], "next": None})

    items: list[ObservationOut]
    next: str | None


class LogOut(Out):
    """The log, which replaces messages in requests."""

    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "seq": 61,
            "log_tokens": 31,
            "items": [{**_OBSERVATION, "state": "log"}],
        }
    )

    thread: str
    seq: int = Field(description="As of this event.")
    log_tokens: int
    items: list[ObservationOut] = Field(description="In the order of the messages.")


class GenerationOut(Out):
    generation: int = Field(validation_alias="number")
    seq: int = Field(description="Of `log.reflected`.")
    at: datetime
    page_id: str
    replaced: list[str]
    log_tokens_before: int = Field(validation_alias="tokens_before")
    log_tokens: int = Field(validation_alias="tokens")

    @classmethod
    def from_generation(cls, found: Generation) -> Self:
        return cls.model_validate(found)


class GenerationsOut(Out):
    model_config = build_example({"items": [_GENERATION]})

    items: list[GenerationOut] = Field(description="The newest first.")


class ObserverSettingsOut(Out):
    observe: bool
    observe_at: float
    observe_cycles: int
    observe_keep_tokens: int
    reflect_at: float


class GapOut(Out):
    begin: int = Field(alias="from", description="The first message.")
    end: int = Field(alias="to", description="The message behind the last.")


class FailingOut(Out):
    times: int
    retry_at: datetime | None


class FailuresOut(Out):
    observer: FailingOut = Field(description="Failures to observe messages.")
    reflector: FailingOut


class ObserverStateOut(Out):
    """Progress of observing a thread, and what is due."""

    settings: ObserverSettingsOut
    paused: bool
    epoch: int = Field(description="What was begun in an earlier one is refused.")
    generation: int = Field(description="Reflections that came into the log.")
    slots: int
    cursor: int
    watermark: int
    gaps: list[GapOut]
    window_tokens: int
    need_tokens: int
    utilization: float = Field(description="Need ÷ window.")
    pinned_tokens: int
    log_tokens: int
    uncovered_tokens: int
    waiting_tokens: int
    unobserved_tokens: int
    interval_tokens: int
    keep_tokens: int
    activate_at_tokens: int
    reflect_at_tokens: int
    due: bool = Field(
        description="Whether a model would be asked: not while it waits after a "
        "failure."
    )
    in_flight: ObserverRole | None = Field(
        description="Whose call is with the model now; null as of an event."
    )
    failures: FailuresOut

    @classmethod
    def from_observer(
        cls, found: Observer, settings: object, in_flight: ObserverRole | None
    ) -> Self:
        tokens = (
            *("window", "need", "log", "uncovered", "waiting", "unobserved"),
            *("interval", "keep", "activate_at", "reflect_at"),
        )
        return cls.from_record(
            found,
            **{f"{name}_tokens": getattr(found, name) for name in tokens},
            pinned_tokens=found.pins,
            settings=ObserverSettingsOut.model_validate(settings),
            in_flight=in_flight,
            gaps=[GapOut(begin=begin, end=end) for begin, end in found.gaps],
            utilization=round(found.need / found.window, 4),
            failures=FailuresOut.model_validate(found),
        )


class RunOut(Out):
    """A run of the observer or the reflector, and its outcome."""

    seq: int
    at: datetime
    role: ObserverRole = Field(description="Whether to observe, or to condense.")
    begin: int = Field(alias="from", description="The first message.")
    end: int = Field(alias="to", description="The message behind the last.")
    outcome: str
    page_id: str | None
    tokens_in: int
    tokens_out: int
    cost: float | None
    host: str | None

    @classmethod
    def from_run(cls, found: ObserverRun) -> Self:
        return cls.model_validate(found)


class InstructionsOut(Out):
    observer: str | None = Field(description="To the observer.")
    reflector: str | None = Field(description="To the reflector.")


class ObserverOut(Out):
    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "seq": 43,
            "observer": _OBSERVER,
            "instructions": _INSTRUCTIONS,
            "runs": [_RUN],
        }
    )

    thread: str
    seq: int = Field(description="As of this event.")
    observer: ObserverStateOut
    instructions: InstructionsOut = Field(
        description="The thread's own; empty: none, null: the project's hold."
    )
    runs: list[RunOut]


class ObservedOut(Out):
    """The result, and the state of the observer then."""

    model_config = build_example(
        {**PLACE, "seq": 43, "page_id": "obs-43", "observer": _OBSERVER}
    )

    thread: str
    thread_id: UUID
    seq: int
    page_id: str | None = Field(description="The page that was made; null: none.")
    observer: ObserverStateOut

"""Observations, and how a thread is observed, on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from memoryhub.api.document.fields import (
    In,
    Limit,
    Out,
    RefusedError,
    Time,
    counted,
    example,
    within,
)
from memoryhub.api.document.samples import AT, PLACE, THREAD_NAME
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.kernel.observing.answers import MAX_HINT, MAX_LINE
from memoryhub.kernel.observing.lines import Line, Mark, is_line, make_line
from memoryhub.kernel.state.observing import ObserverRole
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
    "failures": {
        "observer": {"times": 0, "retry_at": None},
        "reflector": {"times": 0, "retry_at": None},
    },
}


def _line_text(most: int, *, least: int) -> AfterValidator:
    """A text of so many characters, of which something is seen on one line."""

    def check(text: str) -> str:
        if len(text) > most:
            raise RefusedError("value")
        if least and not is_line(text):
            raise RefusedError("value", allowed="more than blanks")
        return text

    return AfterValidator(check)


def _text_schema(most: int, *, least: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "minLength": least, "maxLength": most})


LineText = Annotated[
    str, _line_text(MAX_LINE, least=1), _text_schema(MAX_LINE, least=1)
]
HintText = Annotated[
    str, _line_text(MAX_HINT, least=0), _text_schema(MAX_HINT, least=0)
]
Index = Annotated[int, within(0, 2**31 - 1), counted(0, 2**31 - 1)]


def _first_and_last(slots: list[int] | None) -> list[int] | None:
    if slots is not None and (len(slots) not in (1, 2) or slots[0] > slots[-1]):
        raise RefusedError("value")
    return slots


def _lines(lines: list[LineIn]) -> list[LineIn]:
    if not 1 <= len(lines) <= _MAX_LINES:
        raise RefusedError("value")
    return lines


class LineIn(In):
    at: Time | None = Field(None, description="When it was said; kept to the minute.")
    mark: Mark
    text: LineText
    slots: Annotated[
        list[Index] | None,
        AfterValidator(_first_and_last),
        Field(
            description="The first and the last message that it was made of; absent: "
            "all of the range.",
            json_schema_extra={"minItems": 1, "maxItems": 2},
        ),
    ] = None


class ObservationIn(In):
    model_config = example(
        {**_RANGE, "epoch": 0, "lines": [_LINE], "current_task": "Book the seat."}
    )

    begin: Index = Field(
        alias="from", description="The first message: the `watermark`, or a gap's."
    )
    end: Index = Field(alias="to", description="The message behind the last.")
    epoch: Index = Field(description="The observer's, in which they were read.")
    lines: Annotated[
        list[LineIn],
        AfterValidator(_lines),
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
                raise RefusedError("value", allowed="messages of the range", loc=loc)
        return self

    def made(self) -> list[Line]:
        """Return the lines as they are kept."""
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
    def of(cls, line: Line) -> Self:
        return cls.from_record(line, slots=[line.first, line.end - 1])


class ObservationOut(Out):
    """An observation, or a reflection: that covers others."""

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
    def of(cls, found: ObservationView) -> Self:
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
            lines=None if lines is None else [LineOut.of(each) for each in lines],
            hints=[*found.hints],
        )


class ObservationsOut(Out):
    model_config = example({"items": [_OBSERVATION], "next": None})

    items: list[ObservationOut]
    next: str | None


class LogOut(Out):
    """What stands in requests in the place of messages."""

    model_config = example(
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
    def of(cls, found: Generation) -> Self:
        return cls.model_validate(found)


class GenerationsOut(Out):
    model_config = example({"items": [_GENERATION]})

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
    observer: FailingOut = Field(description="Who is asked about messages.")
    reflector: FailingOut


class ObserverStateOut(Out):
    """How far a thread is observed, and what is due when."""

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
    failures: FailuresOut

    @classmethod
    def of(cls, found: Observer, settings: object) -> Self:
        tokens = (
            *("window", "need", "log", "uncovered", "waiting", "unobserved"),
            *("interval", "keep", "activate_at", "reflect_at"),
        )
        return cls.from_record(
            found,
            **{f"{name}_tokens": getattr(found, name) for name in tokens},
            pinned_tokens=found.pins,
            settings=ObserverSettingsOut.model_validate(settings),
            gaps=[GapOut(begin=begin, end=end) for begin, end in found.gaps],
            utilization=round(found.need / found.window, 4),
            failures=FailuresOut.model_validate(found),
        )


class RunOut(Out):
    """Somebody was asked to observe or to condense, and what came of it."""

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
    def of(cls, found: ObserverRun) -> Self:
        return cls.model_validate(found)


class ObserverOut(Out):
    model_config = example(
        {"thread": THREAD_NAME, "seq": 43, "observer": _OBSERVER, "runs": [_RUN]}
    )

    thread: str
    seq: int = Field(description="As of this event.")
    observer: ObserverStateOut
    runs: list[RunOut]


class ObservedOut(Out):
    """What was done, and how far the thread is observed then."""

    model_config = example(
        {**PLACE, "seq": 43, "page_id": "obs-43", "observer": _OBSERVER}
    )

    thread: str
    thread_id: UUID
    seq: int
    page_id: str | None = Field(description="The page that was made; null: none.")
    observer: ObserverStateOut

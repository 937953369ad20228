"""The settings of paging as a form: text in, a thread's config out, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from memoryhub.errors import InvalidError
from memoryhub.kernel.state.paging_config import (
    CHOICES,
    CONFIDENCES,
    FIXED,
    FORMATS,
    INSTRUCTIONS_ROLES,
    MODES,
    POLICY_NAMES,
    RANGES,
    RECALL_SCOPES,
    Settings,
)
from memoryhub.models.threads import Thread

#: Fields that take one of some words.
WORDS: dict[str, tuple[str, ...]] = {
    "policy": POLICY_NAMES,
    "mode": MODES,
    "instructions_role": INSTRUCTIONS_ROLES,
    "format": FORMATS,
    "recall": RECALL_SCOPES,
    "fault_confidence_threshold": CONFIDENCES,
}
NAMES = tuple(name for name in CHOICES if name not in FIXED)
_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Hold a setting in the form."""

    name: str
    #: What is set, as text; empty for the default.
    text: str
    default: str
    #: The words to choose from; empty for a number.
    words: tuple[str, ...]
    least: float | None
    most: float | None
    wrong: bool

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")


def fields(
    thread: Thread, *, sent: Mapping[str, str] | None = None, wrong: str = ""
) -> list[Field]:
    """List all settings of a thread, or what was sent for them."""
    own = orjson.loads(thread.config)
    return [
        _field(
            name,
            _text(own.get(name)) if sent is None else sent.get(name, ""),
            wrong=wrong == f"config.{name}",
        )
        for name in NAMES
    ]


def read(sent: Mapping[str, str]) -> dict[str, Any]:
    """Read what was sent as a config; None for what is empty. Raises InvalidError."""
    return {name: _value(name, sent.get(name, "").strip()) for name in NAMES}


def _field(name: str, text: str, *, wrong: bool) -> Field:
    least, most = RANGES.get(name, (None, None))
    return Field(
        name=name,
        text=text,
        default=_text(getattr(_DEFAULTS, name)),
        words=_words(name),
        least=least,
        most=most,
        wrong=wrong,
    )


def _words(name: str) -> tuple[str, ...]:
    if isinstance(getattr(_DEFAULTS, name), bool):
        return ("yes", "no")
    return WORDS.get(name, ())


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _value(name: str, text: str) -> Any:
    if not text:
        return None
    words, default = _words(name), getattr(_DEFAULTS, name)
    if words:
        if text not in words:
            raise InvalidError(loc=f"config.{name}")
        return text == "yes" if isinstance(default, bool) else text
    try:
        return _finite(text) if isinstance(default, float) else int(text)
    except ValueError:
        raise InvalidError(loc=f"config.{name}") from None


def _finite(text: str) -> float:
    number = float(text)
    # What is not a number, or without end, is out of any range.
    if number != number or abs(number) > 1e12:  # noqa: PLR0124
        raise ValueError
    return number

"""Form of the paging settings: converts text to a thread's config and back. Pure."""

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
    GUARD_MODES,
    INSTRUCTIONS_ROLES,
    MODES,
    POLICY_NAMES,
    RANGES,
    RECALL_SCOPES,
    PagingSettings,
)
from memoryhub.models.threads import Thread

#: Fields that take one of a few words.
WORDS: dict[str, tuple[str, ...]] = {
    "policy": POLICY_NAMES,
    "mode": MODES,
    "guard": GUARD_MODES,
    "instructions_role": INSTRUCTIONS_ROLES,
    "format": FORMATS,
    "recall": RECALL_SCOPES,
    "fault_confidence_threshold": CONFIDENCES,
}
NAMES = tuple(name for name in CHOICES if name not in FIXED)
_DEFAULTS = PagingSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """Setting in the form."""

    name: str
    #: Value that is set, as text; empty for the default.
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


def list_fields(
    thread: Thread, *, sent: Mapping[str, str] | None = None, wrong: str = ""
) -> list[SettingField]:
    """List all settings of a thread, with the sent values if `sent` is given."""
    own = orjson.loads(thread.config)
    return [
        _build_field(
            name,
            _render_text(own.get(name)) if sent is None else sent.get(name, ""),
            wrong=wrong == f"config.{name}",
        )
        for name in NAMES
    ]


def parse_config(sent: Mapping[str, str]) -> dict[str, Any]:
    """Parse the sent fields as a config, empty ones as None. Raises InvalidError."""
    return {name: _parse_value(name, sent.get(name, "").strip()) for name in NAMES}


def _build_field(name: str, text: str, *, wrong: bool) -> SettingField:
    least, most = RANGES.get(name, (None, None))
    return SettingField(
        name=name,
        text=text,
        default=_render_text(getattr(_DEFAULTS, name)),
        words=_list_words(name),
        least=least,
        most=most,
        wrong=wrong,
    )


def _list_words(name: str) -> tuple[str, ...]:
    if isinstance(getattr(_DEFAULTS, name), bool):
        return ("yes", "no")
    return WORDS.get(name, ())


def _render_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _parse_value(name: str, text: str) -> Any:
    if not text:
        return None
    words, default = _list_words(name), getattr(_DEFAULTS, name)
    if words:
        if text not in words:
            raise InvalidError(loc=f"config.{name}")
        return text == "yes" if isinstance(default, bool) else text
    try:
        return _parse_finite(text) if isinstance(default, float) else int(text)
    except ValueError:
        raise InvalidError(loc=f"config.{name}") from None


def _parse_finite(text: str) -> float:
    number = float(text)
    # NaN and infinity are out of any range.
    if number != number or abs(number) > 1e12:  # noqa: PLR0124
        raise ValueError
    return number

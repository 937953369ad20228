from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django import template
from django.utils.html import format_html, format_html_join

from inspector.drawing import chat, hidden
from memoryhub.queries.replay import exact_json

register = template.Library()
register.filter(hidden.pieces)

_UNKNOWN = "–"
_FIELDS = {
    "slot_count": "slots",
    "turn_count": "turns",
    "token_count": "tokens",
    "byte_count": "bytes",
    "import_digest": "digest of the run",
}
#: How a state looks; one that is neither good nor over is to be watched.
_TONES = {
    **dict.fromkeys(("active", "complete", "in force", "valid", "verified"), "ok"),
    **dict.fromkeys(("erased", "expired", "cancelled", "lifted", "over"), "closed"),
}
_STEPS = (("M", 1_000_000), ("k", 10_000))


@register.filter
def number(value: float | None) -> str:
    """1204 is 1,204; unknown is a dash."""
    return _UNKNOWN if value is None else f"{value:,}"


@register.filter
def counted(counts: Mapping[str, int]) -> str:
    """`{"keys": 1, "has_task": True, "pages": 3}` is `1 key · task · 3 pages`."""
    shown = []
    for name, count in counts.items():
        if not name.startswith("has_"):
            shown.append(f"{count:,} {name.removesuffix('s') if count == 1 else name}")
        elif count:
            shown.append(name.removeprefix("has_"))
    return " · ".join(shown)


@register.filter
def figure(value: float) -> str:
    """A measured number, in as many digits as tell."""
    return f"{value:.4g}"


@register.filter
def decimal(value: float | None) -> str:
    """A share or a score, in two digits."""
    return _UNKNOWN if value is None else f"{value:.2f}"


@register.filter
def faithful(level: int | None) -> str:
    """A level of a page: full, ~1 to ~3, or none."""
    if level is None:
        return _UNKNOWN
    return f"~{level}" if level else "full"


@register.filter
def columns(counts: Sequence[int], high: int) -> list[tuple[int, int]]:
    """Where each bar of a picture so high begins, and its height.

    None that counts is too low to be seen.
    """
    most = max(counts)
    heights = [max(-(-count * high // most), 2 * bool(count)) for count in counts]
    return [(high - height, height) for height in heights]


@register.filter
def compact(value: int | None) -> str:
    """A number for a narrow column: 12.4k, 3.1M."""
    if value is None:
        return _UNKNOWN
    for unit, least in _STEPS:
        if value >= least:
            size = 1_000_000 if unit == "M" else 1_000
            return f"{value / size:.1f}{unit}"
    return f"{value:,}"


@register.filter
def size(value: int | None) -> str:
    """Bytes in the unit that suits."""
    if value is None:
        return _UNKNOWN
    for unit, least in (("MB", 1 << 20), ("KB", 1 << 10)):
        if value >= least:
            return f"{value / least:.1f} {unit}"
    return f"{value} B"


@register.filter
def tone(state: str) -> str:
    """The class of a badge: `ok`, `warn` or `closed`."""
    return _TONES.get(state, "warn")


@register.filter
def share(part: int, whole: int) -> str:
    """A percentage; unknown when there is no whole."""
    return f"{100 * part / whole:.0f} %" if whole else _UNKNOWN


@register.filter
def short(value: UUID | str) -> str:
    """The last eight digits of an id; the first tell only when it was made."""
    return str(value)[-8:]


@register.filter
def stamp(at: datetime) -> str:
    """A time in UTC, for people."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


@register.filter
def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


@register.filter
def span(time: timedelta) -> str:
    """A length of time, in the unit that suits."""
    seconds = int(time.total_seconds())
    for unit, least in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= least:
            return f"{seconds // least:,} {unit}"
    return f"{seconds} s"


@register.filter
def brief(time: timedelta) -> str:
    """A length of time that may be less than a second."""
    seconds = time.total_seconds()
    return f"{seconds:.2f} s" if seconds < 10 else span(time)


@register.filter
def noun(event_type: str) -> str:
    """What an event is about: `slot` of `slot.appended`."""
    return event_type.partition(".")[0]


@register.filter
def signed(value: int) -> str:
    return f"{value:+,}"


@register.filter
def section_title(section: str) -> str:
    """What the rail calls a part of the inspector."""
    named = {"api-keys": "API keys", "words": "Keys and words"}
    return named.get(section) or section.capitalize()


@register.filter
def less(value: int, by: int) -> int:
    return value - by


@register.filter
def stepped(value: int, by: int) -> int:
    """A number of ours moved by some, never below 0."""
    return max(0, value + by)


@register.filter
def seek(value: int, by: int) -> int:
    """An event's seq moved by some, never before the first."""
    return max(1, value + by)


@register.filter
def plain(value: Any) -> str:
    """A value of the state in a table's cell."""
    if value is None or value == "":
        return _UNKNOWN
    if isinstance(value, str):
        return value
    if type(value) is int:
        return number(value)
    return exact_json.dumps(value).decode()


@register.filter
def coded(text: str) -> str:
    """A sentence of ours, with what stands between backticks as code."""
    *pairs, rest = text.split("`")
    if len(pairs) % 2:
        return text
    shown = format_html_join(
        "", "{}<code>{}</code>", zip(pairs[::2], pairs[1::2], strict=True)
    )
    return format_html("{}{}", shown, rest)


@register.filter
def json(value: Any) -> str:
    """JSON for people."""
    return chat.pretty(value)


@register.filter
def field(name: str) -> str:
    """A field of the state, as pages call it; what a client named stays as it is."""
    ours, dot, theirs = name.partition(" · ")
    return _FIELDS.get(ours, ours.replace("_", " ")) + dot + theirs


@register.filter
def lookup(mapping: Mapping[Any, Any], key: Any) -> Any:
    """Nothing where there is nothing to look in."""
    return mapping.get(key, "") if mapping else ""


@register.filter
def label(value: str | float) -> str:
    """A label's value as searches compare it: `abc`, `1`, `0.5`, `true`."""
    return value if isinstance(value, str) else exact_json.dumps(value).decode()

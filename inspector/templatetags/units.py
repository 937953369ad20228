from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import floor, log10
from typing import Any
from uuid import UUID

from django import template
from django.utils.html import format_html, format_html_join

from inspector.drawing import chat, hidden
from memoryhub.models.server.clock import clock
from memoryhub.queries.replay import exact_json
from memoryhub.queries.turns.prices import EstimatedCost

register = template.Library()
register.filter("pieces", hidden.split_text)

_UNKNOWN = "–"
_FIELDS = {
    "slot_count": "slots",
    "turn_count": "turns",
    "token_count": "tokens",
    "byte_count": "bytes",
    "import_digest": "digest of the run",
    # Places of plans and receipts, by the tables' names.
    "assertions": "statements of facts (assertions)",
    "derivations": "links from texts to their sources",
    "page_levels": "shorter forms of pages",
    "request_keys": "keys of repeated requests",
    "subjects": "people (subjects)",
    "subject_keys": "encryption keys of people",
    "daily_uses": "daily uses (reads and writes by API key)",
    "due_values": "due values (values with a day to be erased)",
    "totals": "totals (counts of records by kind)",
    "thread_terms": "thread terms (words for search)",
    "subject_restricted": "person restricted",
}
#: Badge class by state; any other state gets `warn`.
_TONES = {
    **dict.fromkeys(("active", "complete", "in force", "valid", "verified"), "ok"),
    **dict.fromkeys(("erased", "expired", "cancelled", "lifted", "over"), "closed"),
}
_STEPS = (("M", 1_000_000), ("k", 10_000))


@register.filter
def number(value: float | None) -> str:
    """Render a number with separators: 1,204; a dash for None."""
    return _UNKNOWN if value is None else f"{value:,}"


@register.filter
def join_counts(counts: Mapping[str, int]) -> str:
    """Render `{"keys": 1, "has_task": True, "notes": 0}`: `1 key, a task`.

    Renders `nothing` without any.
    """
    shown = []
    for name, count in counts.items():
        if count and name.startswith("has_"):
            shown.append(f"a {name.removeprefix('has_')}")
        elif count:
            shown.append(f"{count:,} {name.removesuffix('s') if count == 1 else name}")
    return ", ".join(shown) or "nothing"


@register.filter
def figure(value: float) -> str:
    """Render a measured number in four significant digits."""
    return f"{value:.4g}"


@register.filter
def money(amount: float, currency: str) -> str:
    """Render an amount: two decimals, more for cents and less: 12.40 EUR, 0.0031."""
    decimals = 2 if amount >= 1 or not amount else 1 - floor(log10(amount))
    return f"{amount:,.{decimals}f} {currency}".rstrip()


@register.filter
def priced(cost: EstimatedCost | None) -> str:
    """Render an estimated cost; a dash for None."""
    return _UNKNOWN if cost is None else money(cost.amount, cost.currency)


@register.filter
def decimal(value: float | None) -> str:
    """Render a share or a score with two decimals; a dash for None."""
    return _UNKNOWN if value is None else f"{value:.2f}"


@register.filter
def faithful(level: int | None) -> str:
    """Render a page's level: full, ~1 to ~3, or a dash for None."""
    if level is None:
        return _UNKNOWN
    return f"~{level}" if level else "full"


@register.filter
def columns(counts: Sequence[int], high: int) -> list[tuple[int, int]]:
    """Compute the top and height of each bar in a picture of height `high`.

    A bar of a count above 0 is at least 2 units high.
    """
    most = max(counts)
    heights = [max(-(-count * high // most), 2 * bool(count)) for count in counts]
    return [(high - height, height) for height in heights]


@register.filter
def compact(value: int | None) -> str:
    """Render a number for a narrow column: 12.4k, 3.1M; a dash for None."""
    if value is None:
        return _UNKNOWN
    for unit, least in _STEPS:
        if value >= least:
            size = 1_000_000 if unit == "M" else 1_000
            return f"{value / size:.1f}{unit}"
    return f"{value:,}"


@register.filter
def size(value: int | None) -> str:
    """Render a number of bytes in B, KB or MB; a dash for None."""
    if value is None:
        return _UNKNOWN
    for unit, least in (("MB", 1 << 20), ("KB", 1 << 10)):
        if value >= least:
            return f"{value / least:.1f} {unit}"
    return f"{value} B"


@register.filter
def tone(state: str) -> str:
    """Return the class of a state's badge: `ok`, `warn` or `closed`."""
    return _TONES.get(state, "warn")


@register.filter
def share(part: int, whole: int) -> str:
    """Render a percentage; a dash when the whole is 0."""
    return f"{100 * part / whole:.0f} %" if whole else _UNKNOWN


@register.filter
def short(value: UUID | str) -> str:
    """Return the last eight digits of an id; the first digits only tell its time."""
    return str(value)[-8:]


@register.filter
def stamp(at: datetime) -> str:
    """Render a time in UTC, for people."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


@register.filter
def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


@register.filter
def span(time: timedelta) -> str:
    """Render a length of time in whole d, h, min or s."""
    seconds = int(time.total_seconds())
    for unit, least in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= least:
            return f"{seconds // least:,} {unit}"
    return f"{seconds} s"


@register.filter
def brief(time: timedelta) -> str:
    """Render a length of time that may be less than a second."""
    seconds = time.total_seconds()
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else span(time)


@register.filter
def noun(event_type: str) -> str:
    """Return the noun of an event type: `slot` of `slot.appended`."""
    return event_type.partition(".")[0]


@register.filter
def with_sign(value: int) -> str:
    """Render a number with its sign: +3, −1,200."""
    return f"{value:+,}".replace("-", "\N{MINUS SIGN}")


@register.filter
def section_title(section: str) -> str:
    """Return the title of an inspector section in the navigation rail."""
    named = {
        "api-keys": "API keys",
        "subjects": "People",
        "words": "Keys and words",
    }
    return named.get(section) or section.capitalize()


@register.filter
def less(value: int, by: int) -> int:
    return value - by


@register.filter
def move_by(value: int, by: int) -> int:
    """Add `by` to a number, never below 0."""
    return max(0, value + by)


@register.filter
def seek(value: int, by: int) -> int:
    """Add `by` to an event's seq, never below 1."""
    return max(1, value + by)


@register.filter
def plain(value: Any) -> str:
    """Render a value of the state as a table's cell."""
    if value is None or value == "":
        return _UNKNOWN
    if isinstance(value, str):
        return value
    if type(value) is int:
        return number(value)
    return exact_json.dump_json(value).decode()


@register.filter
def mark_code(text: str) -> str:
    """Render a sentence of ours with text between backticks as `<code>`."""
    *pairs, rest = text.split("`")
    if len(pairs) % 2:
        return text
    shown = format_html_join(
        "", "{}<code>{}</code>", zip(pairs[::2], pairs[1::2], strict=True)
    )
    return format_html("{}{}", shown, rest)


@register.filter
def json(value: Any) -> str:
    """Render JSON for people."""
    return chat.render_json(value)


@register.filter
def field(name: str) -> str:
    """Render a field of the state in words; a client's name in it stays unchanged."""
    ours, dot, theirs = name.partition(" · ")
    return _FIELDS.get(ours, ours.replace("_", " ")) + dot + theirs


@register.filter
def day_beside(at: datetime, other: datetime | None) -> str:
    """Render a day in UTC, with its time if `other`, or else now, is on that day."""
    moment, second = at.astimezone(UTC), (other or clock.now()).astimezone(UTC)
    time = f", {moment:%H:%M}" if moment.date() == second.date() else ""
    return f"{moment.day} {moment:%b %Y}{time}"


@register.filter
def lookup(mapping: Mapping[Any, Any], key: Any) -> Any:
    """Return the mapping's value; empty without the key or the mapping."""
    return mapping.get(key, "") if mapping else ""


@register.filter
def label(value: str | float) -> str:
    """Render a label's value as searches compare it: `abc`, `1`, `0.5`, `true`."""
    return value if isinstance(value, str) else exact_json.dump_json(value).decode()

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from memoryhub.models.threads import Thread
from memoryhub.queries.paging import paging_charts
from memoryhub.queries.paging.paging_charts import Charts

_HUES = ("good", "bad", "warn", "tool", "assistant", "system", "user")
_FAULTS = (("faults", "faults"), ("refused", "refused"), ("refaults", "refaults"))


def picture(
    thread: Thread, *, first: int | None = None, last: int | None = None
) -> dict[str, Any]:
    """What the page of paging shows of a stretch. Queries as `get_charts`."""
    found = paging_charts.get_charts(thread, first=first, last=last)
    drawn = orjson.dumps(_drawn(found)).decode()
    return {"charts": found, "drawn": drawn}


def _drawn(charts: Charts) -> dict[str, Any]:
    """What charts.js draws, all of it numbers and words of ours."""
    buckets = charts.buckets
    resident = _line("resident rate", "good", [each.resident_rate for each in buckets])
    rate = _line("TLB hit rate", "user", [each.hit_rate for each in buckets])
    asked = _line("look-ups", "user", [bucket.lookups for bucket in buckets])
    causes = [(each, f"evicted.{each}") for each in charts.causes]
    return {
        "x": [bucket.last for bucket in buckets],
        "charts": {
            "rate": {"most": 1, "series": [resident, rate]},
            "lookups": {"series": [asked, *_lines(charts, [("hits", "hits")])]},
            "faults": {"series": _lines(charts, _FAULTS)},
            "evictions": {"series": _lines(charts, causes)},
        },
    }


def _lines(charts: Charts, named: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """A line for each label and counter, in hues that differ."""
    told = paging_charts.series(charts.buckets, [name for _, name in named])
    return [
        _line(label, _HUES[n % len(_HUES)], values)
        for n, ((label, _), values) in enumerate(zip(named, told, strict=True))
    ]


def _line(label: str, hue: str, values: list[Any]) -> dict[str, Any]:
    return {"label": label, "hue": hue, "values": values}

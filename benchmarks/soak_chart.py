"""Chart of a soak as SVG: memory, latency and rate over time, and a tick for a kill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MIB = 2**20
WIDTH, HEIGHT, LEFT, TOP = 900, 150, 60, 30
COLOURS = ("#1f5fbf", "#c2571a")
Lines = Mapping[str, Callable[[Mapping[str, Any]], float]]
#: Panels from top to bottom: title and lines.
PANELS: Mapping[str, Lines] = {
    "memory, MiB": {
        "server that runs on": lambda each: each["memory_bytes"][0] / MIB,
        "server that is killed": lambda each: each["memory_bytes"][1] / MIB,
    },
    "latency, ms": {
        "p50": lambda each: each["p50_seconds"] * 1_000,
        "p99": lambda each: each["p99_seconds"] * 1_000,
    },
    "a second": {
        "requests": lambda each: each["requests_per_second"],
        "acknowledged messages": lambda each: each["writes_per_second"],
    },
}


def draw_chart(report: Mapping[str, Any]) -> str:
    """Draw the report of a soak; kills are ticks under each panel."""
    step = HEIGHT + 2 * TOP
    panels = [
        f'<g transform="translate({LEFT} {number * step + TOP})">'
        f"{_draw_panel(title, lines, report)}</g>"
        for number, (title, lines) in enumerate(PANELS.items())
    ]
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" fill="none" '
        f'font-size="12" viewBox="0 0 {WIDTH + 2 * LEFT} {len(PANELS) * step}">'
    )
    white = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, white, *panels, "</svg>\n"])


def _draw_panel(title: str, lines: Lines, report: Mapping[str, Any]) -> str:
    samples, end = report["samples"], report["samples"][-1]["at"]
    values = {name: [*map(read, samples)] for name, read in lines.items()}
    top = max(1.0, *map(max, values.values())) * 1.1
    ticks = "".join(f"M{at / end * WIDTH:.1f} {HEIGHT}v8" for at in report["kills"])
    parts = [
        f'<path d="M0 0V{HEIGHT}H{WIDTH}" stroke="#666"/>',
        f'<path d="{ticks}" stroke="#c00"/>',
        _write(0, -10, f"{title}: 0 to {top:,.0f}"),
        _write(WIDTH - 50, HEIGHT + 18, f"{end / 60:,.1f} min"),
    ]
    for number, (name, heights) in enumerate(values.items()):
        points = " ".join(
            f"{each['at'] / end * WIDTH:.1f},{HEIGHT * (1 - height / top):.1f}"
            for each, height in zip(samples, heights, strict=True)
        )
        parts.append(f'<polyline points="{points}" stroke="{COLOURS[number]}"/>')
        x = WIDTH - 360 + 180 * number
        parts.append(_write(x, -10, name, COLOURS[number]))
    return "".join(parts)


def _write(x: float, y: float, text: str, colour: str = "#333") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}">{text}</text>'

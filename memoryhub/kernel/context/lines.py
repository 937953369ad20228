"""Lines: a page in the model's context, always one line, and how to read one back.

Pure. No content can end its line, close a fence or pass for another page. The text
behind the colon unescapes to exactly the page's content.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from memoryhub.kernel.context.opened import OpenedPage, get_body
from memoryhub.kernel.context.opened import get_text as text_at
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import (
    dump_json,
    make_inert,
    minimise_json,
    quote_text,
    read,
)

#: Mark behind the kept characters of a cut text.
CUT = "..."

_MODALITIES = {"image": "I", "audio": "D", "video": "V", "structured": "J"}
_TYPES = {"summary": "S", "claim": "C", "procedure": "P", "index": "X"}
_ROLES = {"user": "U", "assistant": "A", "tool": "T"}
_MEDIA_CHARS = 200
_LINE = re.compile(
    r"([A-Z?]) \(([^\s()]+)(?: ~([123]))?( recalled)?(?: (\d+)-(\d+))?\): (.*)",
    re.DOTALL,
)
_BARE_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_FENCE = re.compile(r"<(?=/?VM:)")


class ParsedLine(NamedTuple):
    """Contents of a line: page, level and text."""

    letter: str
    page_id: str
    level: int
    recalled: bool
    #: A text, or minimised JSON text for a text that is JSON; the value for letter J.
    content: Any
    #: First character of a part, and the one behind the part's last.
    part: tuple[int, int] | None = None


def render_line(
    opened: OpenedPage,
    *,
    level: int = FULL,
    recalled: bool = False,
    cut: int | None = None,
    part: tuple[int, int] | None = None,
) -> str:
    """Render the page's line, without a line break.

    `cut` shows only the first `cut` characters of a text. Each line is made once for an
    opened page, then remembered in the page. `part` are characters of the text of FULL,
    whatever its modality.
    """
    if part is not None:
        text = quote_text(render_shown_text(opened)[slice(*part)])
        back = " recalled" if recalled else ""
        return (
            f"{get_letter(opened)} ({opened.page_id}{back} {part[0]}-{part[1]}): {text}"
        )
    mark = f" ~{level}" if level else ""
    back = " recalled" if recalled else ""
    shown = _render_shown(opened, level, cut)
    return f"{get_letter(opened)} ({opened.page_id}{mark}{back}): {shown}"


def get_letter(opened: OpenedPage) -> str:
    """Return the letter for a page: by modality, else by type, else by its role."""
    found = _MODALITIES.get(opened.modality) or _TYPES.get(opened.type)
    return found or _ROLES.get(opened.role or "", "?")


def parse(text: str) -> ParsedLine:
    """Parse a line made by `render_line`. Raise ValueError for anything else."""
    found = _LINE.fullmatch(text)
    if found is None:
        raise ValueError("not a line of a context")
    initial, page_id, level, recalled, start, end, rest = found.groups()
    return ParsedLine(
        letter=initial,
        page_id=page_id,
        level=int(level or FULL),
        recalled=recalled is not None,
        content=json.loads(rest) if start else _parse_content(initial, rest),
        part=(int(start), int(end)) if start else None,
    )


def render_shown_text(opened: OpenedPage, *, level: int = FULL) -> str:
    """Render a level as one text, from which parts of FULL are cut."""
    text = text_at(opened, level=level)
    if text is not None:
        return text
    if opened.modality in _MEDIA:
        return render_media(opened)
    return dump_json(get_body(opened, level=level))


def render_prose(opened: OpenedPage, *, level: int, cut: int | None = None) -> str:
    """Render a page's text as the system prompt has it, fences made inert."""
    text = text_at(opened, level=level)
    if text is None:
        text = _render_shown(opened, level, None)
    elif cut is not None:
        text = text[:cut] + CUT
    return _FENCE.sub(r"\\u003c", text)


def render_media(opened: OpenedPage) -> str:
    """Render the placeholder for an image, audio or video, its texts escaped."""
    return _MEDIA[opened.modality](opened)


def _render_shown(opened: OpenedPage, level: int, cut: int | None) -> str:
    if cut is not None:
        return quote_text((text_at(opened, level=level) or "")[:cut] + CUT)
    shown = opened.shown.get(level)
    if shown is None:
        shown = opened.shown[level] = _render_whole(opened, level)
    return shown


def _render_whole(opened: OpenedPage, level: int) -> str:
    text = text_at(opened, level=level)
    if text is None and opened.modality in _MEDIA:
        return render_media(opened)
    if text is None:
        return make_inert(dump_json(get_body(opened, level=level)))
    # Structured pages have the letter J, and a text among them is in quotes.
    if opened.modality == "text" and read(text) is not None:
        return make_inert(minimise_json(text))
    return quote_text(text)


def _parse_content(initial: str, rest: str) -> Any:
    if initial == "J" or rest.startswith('"'):
        return json.loads(rest)
    if initial in "IDV":
        return unescape_text(rest)
    return rest


def unescape_text(text: str) -> str:
    """Undo JSON's escapes in a text; leave bare quotes alone."""
    bare = _BARE_QUOTE.sub(lambda found: '\\"' if found[0] == '"' else found[0], text)
    unescaped: str = json.loads(f'"{bare}"')
    return unescaped


def _render_image(opened: OpenedPage) -> str:
    about = [_escape_text(opened.content.get("caption") or "")]
    if opened.dimensions:
        about.append("{}x{}".format(*opened.dimensions))
    return _render_bracketed("IMAGE", about)


def _render_audio(opened: OpenedPage) -> str:
    transcript = opened.content.get("transcript") or ""
    if not transcript:
        stamps = opened.content.get("timestamps") or ()
        transcript = " ".join(stamp["text"] for stamp in stamps)
    return _render_bracketed(
        "AUDIO",
        [
            _render_duration(opened),
            f"transcript: {_quote_beginning(transcript)}" if transcript else "",
        ],
    )


def _render_video(opened: OpenedPage) -> str:
    scenes = len(opened.content.get("scenes") or ())
    topic = opened.content.get("topic") or ""
    about = [_render_duration(opened), f"{scenes} scenes" if scenes else ""]
    return _render_bracketed(
        "VIDEO", [*about, f"topic: {_quote_beginning(topic)}" if topic else ""]
    )


_MEDIA = {"image": _render_image, "audio": _render_audio, "video": _render_video}


def _render_bracketed(kind: str, about: list[str]) -> str:
    text = ", ".join(part for part in about if part)
    return f"[{kind}: {text}]" if text else f"[{kind}]"


def _render_duration(opened: OpenedPage) -> str:
    seconds = opened.content.get("duration_seconds")
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d} duration"


def _quote_beginning(text: str) -> str:
    return quote_text(text if len(text) <= _MEDIA_CHARS else text[:_MEDIA_CHARS] + CUT)


def _escape_text(text: str) -> str:
    return quote_text(text)[1:-1]

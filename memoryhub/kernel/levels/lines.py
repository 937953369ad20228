"""Lines: a page in the model's context, always one line, and how to read one back.

Pure. No content can end its line, close a fence or pass for another page: what stands
behind the colon unescapes to exactly what the page says.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from memoryhub.kernel.levels.opened import Opened, body
from memoryhub.kernel.levels.opened import text as text_at
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import dumped, inert, minimised, quoted, read

#: Behind the characters that were kept of a text.
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


class Parsed(NamedTuple):
    """What a line says."""

    letter: str
    page_id: str
    level: int
    recalled: bool
    #: A text, also one that is JSON, as minimised JSON text; of letter J the value.
    content: Any
    #: Its first character, and the one behind its last, of a part.
    part: tuple[int, int] | None = None


def line(
    opened: Opened,
    *,
    level: int = FULL,
    recalled: bool = False,
    cut: int | None = None,
    part: tuple[int, int] | None = None,
) -> str:
    """Return the page's line, without a line break.

    Of a text only the first `cut` characters. Made once for each opened page, then
    remembered in it. `part` are characters of the text of FULL, whatever its modality.
    """
    if part is not None:
        text = quoted(shown_text(opened)[slice(*part)])
        back = " recalled" if recalled else ""
        return f"{letter(opened)} ({opened.page_id}{back} {part[0]}-{part[1]}): {text}"
    mark = f" ~{level}" if level else ""
    back = " recalled" if recalled else ""
    return (
        f"{letter(opened)} ({opened.page_id}{mark}{back}): {_shown(opened, level, cut)}"
    )


def letter(opened: Opened) -> str:
    """Return the letter for a page: by modality, else by type, else by its role."""
    found = _MODALITIES.get(opened.modality) or _TYPES.get(opened.type)
    return found or _ROLES.get(opened.role or "", "?")


def parse(text: str) -> Parsed:
    """Parse what `line` made. Raises ValueError for anything else."""
    found = _LINE.fullmatch(text)
    if found is None:
        raise ValueError("not a line of a context")
    initial, page_id, level, recalled, start, end, rest = found.groups()
    return Parsed(
        letter=initial,
        page_id=page_id,
        level=int(level or FULL),
        recalled=recalled is not None,
        content=json.loads(rest) if start else _content(initial, rest),
        part=(int(start), int(end)) if start else None,
    )


def shown_text(opened: Opened, *, level: int = FULL) -> str:
    """Return a level as one text, from which parts of FULL are cut."""
    text = text_at(opened, level=level)
    if text is not None:
        return text
    if opened.modality in _MEDIA:
        return media(opened)
    return dumped(body(opened, level=level))


def prose(opened: Opened, *, level: int, cut: int | None = None) -> str:
    """Return a page's text as the system prompt has it, fences made inert."""
    text = text_at(opened, level=level)
    if text is None:
        text = _shown(opened, level, None)
    elif cut is not None:
        text = text[:cut] + CUT
    return _FENCE.sub(r"\\u003c", text)


def media(opened: Opened) -> str:
    """Return the placeholder for pixels, sound and film, texts in it escaped."""
    return _MEDIA[opened.modality](opened)


def _shown(opened: Opened, level: int, cut: int | None) -> str:
    if cut is not None:
        return quoted((text_at(opened, level=level) or "")[:cut] + CUT)
    shown = opened.shown.get(level)
    if shown is None:
        shown = opened.shown[level] = _whole(opened, level)
    return shown


def _whole(opened: Opened, level: int) -> str:
    text = text_at(opened, level=level)
    if text is None and opened.modality in _MEDIA:
        return media(opened)
    if text is None:
        return inert(dumped(body(opened, level=level)))
    # Of structured pages the letter says J, and a text among them is in quotes.
    if opened.modality == "text" and read(text) is not None:
        return inert(minimised(text))
    return quoted(text)


def _content(initial: str, rest: str) -> Any:
    if initial == "J" or rest.startswith('"'):
        return json.loads(rest)
    if initial in "IDV":
        return unescaped(rest)
    return rest


def unescaped(text: str) -> str:
    """Undo JSON's escapes in a text; quotes that stand bare are left alone."""
    bare = _BARE_QUOTE.sub(lambda found: '\\"' if found[0] == '"' else found[0], text)
    unescaped: str = json.loads(f'"{bare}"')
    return unescaped


def _image(opened: Opened) -> str:
    about = [_escaped(opened.content.get("caption") or "")]
    if opened.dimensions:
        about.append("{}x{}".format(*opened.dimensions))
    return _bracketed("IMAGE", about)


def _audio(opened: Opened) -> str:
    transcript = opened.content.get("transcript") or ""
    if not transcript:
        stamps = opened.content.get("timestamps") or ()
        transcript = " ".join(stamp["text"] for stamp in stamps)
    return _bracketed(
        "AUDIO",
        [_duration(opened), f"transcript: {_first(transcript)}" if transcript else ""],
    )


def _video(opened: Opened) -> str:
    scenes = len(opened.content.get("scenes") or ())
    topic = opened.content.get("topic") or ""
    about = [_duration(opened), f"{scenes} scenes" if scenes else ""]
    return _bracketed("VIDEO", [*about, f"topic: {_first(topic)}" if topic else ""])


_MEDIA = {"image": _image, "audio": _audio, "video": _video}


def _bracketed(kind: str, about: list[str]) -> str:
    text = ", ".join(part for part in about if part)
    return f"[{kind}: {text}]" if text else f"[{kind}]"


def _duration(opened: Opened) -> str:
    seconds = opened.content.get("duration_seconds")
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d} duration"


def _first(text: str) -> str:
    return quoted(text if len(text) <= _MEDIA_CHARS else text[:_MEDIA_CHARS] + CUT)


def _escaped(text: str) -> str:
    return quoted(text)[1:-1]

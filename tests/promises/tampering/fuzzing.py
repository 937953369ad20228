"""Readers of what comes from outside: they may raise refusals only, on any bytes."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from uuid import UUID
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from inspector.web import search
from memoryhub.errors import Refusal
from memoryhub.journal.log import event_lines
from memoryhub.kernel.search import parsing
from memoryhub.kernel.text import globs, strict_json
from memoryhub.queries.lists import cursors
from memoryhub.services.export import archives

#: What the boxes of lists understand.
BOXES = (
    *(search.THREADS, search.EVENTS, search.AUDIT),
    *(search.PAGES, search.MEMORY_KEYS),
)
SEEDS: dict[str, list[bytes]] = {
    "parser": [
        b'{"a":[1,2.50,-0,1e400,null,true,"\\u0041\\ud83d\\ude00"]}',
        '"ünï \u2028"'.encode(),
        b"[[[]]]",
        b"\xef\xbb\xbf{}",
        b"123456789012345678901234567890",
    ],
    "glob": [b"a*b?[c-e]\nabcxd", b"[!a-]*\nz", b"[]]\n]", b"[a&&b||c]*\na"],
    "cursor": [b"WyJhIiwxXQ:abc_-123", b".eJyL:sig", b":", b"a:b:c"],
    "bundle": [],
    "line": [
        b'{"thread":"00000000-0000-4000-8000-000000000000","seq":1,"type":'
        b'"slot.appended","at":"2026-01-01T00:00:00.000000+00:00","actor":"agent:a",'
        b'"body":{},"content":null,"erased":null,"chain":"' + b"0" * 64 + b'"}'
    ],
    "search": [
        b'label.tier:gold flag:stale -"two words"',
        b"active:>2026-01-01T00:00 events:>=1.5k name:a,b",
        b"active:<3d budget:-1 status:open",
        b'"a phrase" from:2026-01-01 to:2026-02-01 not:x kind:message',
    ],
}


def read_json(data: bytes) -> None:
    """Parse JSON; what is taken is kept, and parsed again is the same."""
    for limits in (strict_json.DEFAULT, strict_json.CONTENT):
        try:
            found = strict_json.parse(data, limits)
        except Refusal:
            continue
        text = strict_json.check(found, limits)
        assert strict_json.check(strict_json.parse(text, limits), limits) == text


def match_glob(data: bytes) -> None:
    glob, _, name = data.decode("utf-8", "surrogateescape").partition("\n")
    matches = globs.compile_glob(glob)
    matches(name)


def open_cursor(data: bytes) -> None:
    """Open a cursor as given, and as the middle and the signature of a good one."""
    text = data.decode("utf-8", "surrogateescape")
    scope = cursors.ListScope(name="threads", project=UUID(int=1))
    position = [data[:99].hex(), 1]
    good = scope.seal(position)
    for given in (good, text, good + text, text + good, good.replace(":", text, 1)):
        with suppress(Refusal):
            assert scope.open(given) == position


def read_bundle(data: bytes) -> None:
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with archives.open_archive(Path(file.name)) as archive:
            for name in archive.sizes:
                for line in archive.iter_lines(name):
                    with suppress(Refusal):
                        event_lines.parse_line(line)


def read_line(data: bytes) -> None:
    """Parse an event's line; what is taken is rendered as it was."""
    assert event_lines.render_line(event_lines.parse_line(data)) == data


def read_search(data: bytes) -> None:
    """Parse what may be typed in the search box of each list, and of contents."""
    text = data.decode("utf-8", "replace")
    for keys in BOXES:
        found = search.parse_search(text, keys)
        assert found.error or found.terms or not found.text
    for can_exclude in (False, True):
        with suppress(Refusal):
            parsing.parse(text, kinds=("message", "page"), can_exclude=can_exclude)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "parser": read_json,
    "glob": match_glob,
    "cursor": open_cursor,
    "bundle": read_bundle,
    "line": read_line,
    "search": read_search,
}


def attempt(target: str, data: bytes) -> None:
    """Give a target these bytes; raises what it raises, but for refusals."""
    with suppress(Refusal):
        TARGETS[target](data)


def list_seeds(target: str) -> list[bytes]:
    if target != "bundle":
        return SEEDS[target]
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        # Without the time of day, which each archive would have another of.
        archive.writestr(ZipInfo("manifest.json"), b"{}")
        archive.writestr(ZipInfo("events.jsonl"), SEEDS["line"][0] + b"\n")
    return [packed.getvalue()]


def mutate(target: str, *, seed: int, count: int) -> Iterator[bytes]:
    """Yield seeds with a few bytes changed, left out, repeated or put in."""
    rng, seeds = random.Random(f"{target}{seed}"), list_seeds(target)
    odd = b"\0\xff\x7f\x80\"'[]{}:*?!-\\,.<> \n" + b"".join(seeds)
    for _ in range(count):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 6)):
            at, size = rng.randrange(len(data) + 1), rng.choice((0, 0, 1, 1, 2, 9))
            put = bytes(rng.choices(odd, k=rng.choice((0, 1, 1, 2, 4))))
            data[at : at + size] = put * rng.choice((1, 1, 1, 1, 50))
        yield bytes(data)

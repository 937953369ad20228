"""LangGraph's threads and checkpoints as names and keys of the hub, without LangGraph.

A LangGraph thread is one hub thread, `langgraph:<thread_id>`, with these keys:

- `c.<namespace>.<id>z`: a checkpoint; the largest id comes first by name;
- `c.<namespace>.<id>z.<time>`: the writes of one `put_writes`;
- `v.<channel><digest>`: a text that nodes of checkpoints and writes reference;
- `about`: the `thread_id`, and the secret that digests are made with.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

from memoryhub_client import keys, threads
from memoryhub_client.escapes import MAX_NAME, escape_name, unescape_name
from memoryhub_client.keys import KeyChange
from memoryhub_client.langgraph_nodes import CHANNEL
from memoryhub_client.problems import NotFound
from memoryhub_client.requests import Listing, Request
from memoryhub_client.steps import Steps

Changes = list[KeyChange]

PREFIX, LABELS = "langgraph:", {"kind": "langgraph"}
#: The most that the hub grants a thread.
CONFIG = {"max_keys": 100_000, "max_key_bytes": 2**30}
#: Up to so many missing texts of a channel are read one by one.
FEW = 3


class TextVanished(LookupError):
    """A referenced text is gone: its checkpoint was deleted since it was read."""


# Names


def build_thread_name(thread_id: str) -> str:
    """Build the hub thread's name: the id, its other characters as `@` and hex digits.

    The name of a long id ends with a digest.
    """
    safe = escape_name(thread_id)
    if len(PREFIX + safe) <= MAX_NAME:
        return PREFIX + safe
    digest = blake2b(_to_bytes(thread_id), digest_size=16).hexdigest()
    return f"{PREFIX}{safe[:60]}@@{digest}"


def parse_thread_name(name: str) -> str | None:
    """Return the id that the name was built from; None for a long id."""
    safe = name.removeprefix(PREFIX)
    return None if "@@" in safe else unescape_name(safe)


def _build_codes() -> dict[int, str]:
    """Build a code of each byte: the larger the byte, the smaller its code by name.

    Digits, `a` to `f` and the hyphen, which UUIDs consist of, have codes of one letter.
    """
    singles = dict(zip(b"-0123456789abcdef", "xvutsrqponmkjihgf", strict=True))
    escapes = {0x2D: "y", 0x30: "w", 0x61: "l", 0x100: "e"}
    return {
        byte: singles.get(byte)
        or next(code for end, code in escapes.items() if byte < end)
        + f"{255 - byte:02x}"
        for byte in range(256)
    }


_CODES = _build_codes()
#: Characters of an id's code; the rest of a longer one is a digest.
_MOST_CODE = 80


def build_key(namespace: str | None, checkpoint_id: str | None) -> str:
    """Build the key of a checkpoint, or the beginning of the keys of all."""
    digest = "*" if namespace is None else "root"
    if namespace:
        digest = blake2b(_to_bytes(namespace), digest_size=6).hexdigest()
    if checkpoint_id is None:
        return f"c.{digest}."
    plain = _to_bytes(checkpoint_id)
    order = "".join(_CODES[byte] for byte in plain)
    if len(order) > _MOST_CODE:
        order = order[:_MOST_CODE] + blake2b(plain, digest_size=8).hexdigest()
    # The last letter, so that an id comes after the longer ones that begin with it.
    return f"c.{digest}.{order}z"


def _to_bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


# Requests and their answers


def set_key(key: str, value: Any) -> KeyChange:
    return {"op": "set", "key": key, "value": value}


def allow_repeats(request: Request[Any]) -> Request[Any]:
    """Return the write without its Idempotency-Key, of which the hub keeps a row.

    Sets and deletes can be repeated: a refused repeat is planned again.
    """
    headers = {**request.headers}
    headers.pop("Idempotency-Key")
    return replace(request, headers=headers)


def list_everything(listing: Listing) -> Steps[list[dict[str, Any]]]:
    items: list[dict[str, Any]] = []
    while True:
        part = yield listing
        items += part["items"]
        if part["next"] is None:
            return items
        listing = listing.going_on(part["next"])


def list_threads() -> Steps[list[str]]:
    found = yield from list_everything(threads.list_all(labels=LABELS, limit=200))
    return [each["thread"] for each in found if each["thread"].startswith(PREFIX)]


def list_texts(name: str, *, at_seq: int) -> Steps[set[str]]:
    """List the keys of all stored texts."""
    listing = keys.list_all(name, glob="v.*", limit=200, at_seq=at_seq)
    return {item["key"] for item in (yield from list_everything(listing))}


def read_texts(name: str, refs: list[str]) -> Steps[dict[str, str]]:
    """Read stored texts: a few by name, many by their channel. Raises TextVanished."""
    found: dict[str, str] = {}
    for channel in {ref[:CHANNEL] for ref in refs}:
        wanted = {ref for ref in refs if ref.startswith(channel)}
        if len(wanted) <= FEW:
            for ref in wanted:
                try:
                    found[ref] = (yield keys.get(name, f"v.{ref}"))["value"]
                except NotFound as refusal:
                    raise TextVanished(ref) from refusal
            continue
        listing = keys.list_all(name, glob=f"v.{channel}*", values=True, limit=200)
        for item in (yield from list_everything(listing)):
            found[item["key"].removeprefix("v.")] = item["value"]
        if gone := wanted - found.keys():
            raise TextVanished(min(gone))
    return found

"""Names that the hub's Python client gives to LangGraph's threads and items.

Restated, since the server is installed without the client; a test holds both together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from memoryhub.compat.fields import build_refusal

Namespace = tuple[str, ...]

THREADS: Final = "langgraph:"
#: Thread of the items, as MemoryHubStore names it unless told otherwise.
STORE: Final = "store:main"
#: Bodies that the client makes these threads with.
THREAD: Final = {
    "labels": {"kind": "langgraph"},
    "config": {"max_keys": 100_000, "max_key_bytes": 2**30},
}
STORE_THREAD: Final = {
    "labels": {"kind": "langgraph-store", "store": "main"},
    "config": THREAD["config"],
}
#: End of a name's readable part; a digest follows.
LONG: Final = "@@"
_MOST_NAME, _KEPT, _KEPT_OF_THREAD = 128, 94, 60


def build_thread_name(thread_id: str) -> str:
    """Build the hub's name of a LangGraph thread."""
    safe = _escape(thread_id)
    if len(THREADS + safe) <= _MOST_NAME:
        return THREADS + safe
    return f"{THREADS}{safe[:_KEPT_OF_THREAD]}{LONG}{_digest(thread_id, 16)}"


def parse_thread_name(name: str) -> str | None:
    """Return the id that the name was built from; None for a long id."""
    safe = name.removeprefix(THREADS)
    return None if LONG in safe else _unescape(safe)


def build_checkpoint_glob(namespace: str) -> str:
    """Build a glob of the checkpoints of a namespace, without their writes."""
    return f"c.{_digest(namespace, 6) if namespace else 'root'}.*z"


def build_item_name(namespace: Namespace, key: str) -> str:
    """Build the key of an item."""
    name = f"{_build_prefix(namespace)}:{_escape(key)}"
    if len(name) <= _MOST_NAME:
        return name
    return f"{name[:_KEPT]}{LONG}{_digest(name, 16)}"


def build_item_glob(prefix: Namespace) -> str:
    """Build a glob of the items below a prefix; a long one matches others, too."""
    return _build_prefix(prefix)[:_KEPT] + "*"


def build_item_value(name: str, namespace: Namespace, key: str, value: Any) -> Any:
    """Build the value of an item's key: a long name does not tell the item's place."""
    if LONG not in name:
        return value
    return {"namespace": [*namespace], "key": key, "value": value}


def parse_item_name(name: str) -> tuple[Namespace, str]:
    """Return namespace and key of a name that is not long."""
    labels, _, key = name.partition(":")
    return tuple(map(_unescape, labels.split(".")[1:-1])), _unescape(key)


def parse_item(stored: Mapping[str, Any]) -> tuple[Namespace, str, Any]:
    """Return namespace, key and value of a stored key, which has its value."""
    if LONG not in stored["key"]:
        return *parse_item_name(stored["key"]), stored["value"]
    value = stored["value"]
    return tuple(map(str, value["namespace"])), str(value["key"]), value["value"]


def require_namespace(labels: Any, *, may_be_empty: bool = True) -> Namespace:
    """Return the labels as LangGraph allows them. Raises HubRefusedError."""
    if not isinstance(labels, list) or not all(
        isinstance(each, str) and each and "." not in each for each in labels
    ):
        raise build_refusal("namespace: labels, each a text without periods")
    if not may_be_empty and (not labels or labels[0] == "langgraph"):
        raise build_refusal("namespace: at least one label, and not first `langgraph`")
    return tuple(labels)


def _build_prefix(namespace: Namespace) -> str:
    return "i." + "".join(f"{_escape(label)}." for label in namespace)


def _escape(text: str) -> str:
    return re.sub(
        rb"[^A-Za-z0-9._-]",
        lambda found: b"@" + found[0].hex().encode(),
        text.encode(errors="surrogatepass"),
    ).decode()


def _unescape(safe: str) -> str:
    # Half surrogate pairs, which only Python's clients could write, are in no answer.
    return re.sub(
        b"@([0-9a-f]{2})",
        lambda found: bytes.fromhex(found[1].decode()),
        safe.encode(),
    ).decode(errors="replace")


def _digest(text: str, size: int) -> str:
    plain = text.encode(errors="surrogatepass")
    return blake2b(plain, digest_size=size).hexdigest()

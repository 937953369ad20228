"""Nodes: LangGraph's values as short JSON and references to texts, without LangGraph.

A node is a value's text, references to texts, or a list of nodes. An element of a list
is a text of its own, and so is each whole chunk of elements: a list that grows costs
what is appended.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Protocol

#: A reference, or an object with `text`, `refs`, `chunk` or `list`.
Node = Any

#: Longest stored text in characters: the hub takes 256 KiB, a character up to 4 bytes.
PIECE = 60_000
#: Longest text in a node, in characters. A longer one is a key of its own, which takes
#: about 700 bytes beside its text.
INLINE = 256
#: Elements of a list that are referenced together.
CHUNK = 16
#: End of the kind of compressed bytes: the hub compresses their text less well.
PACKED = "=zlib"
#: Characters of a reference that are its channel's.
CHANNEL = 4


class TypedSerializer(Protocol):
    """Part of LangGraph's serializer protocol that nodes need."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]: ...
    def loads_typed(self, data: tuple[str, bytes]) -> Any: ...


class NodeEncoder:
    """Encoder of values into nodes; it gathers the texts that the nodes reference.

    `plain` allows JSON in place of the serializer's bytes where nothing is lost.
    """

    def __init__(self, serde: TypedSerializer, secret: bytes, *, plain: bool) -> None:
        self.serde, self.secret, self.plain = serde, secret, plain
        #: Texts by reference.
        self.texts: dict[str, str] = {}

    def encode(self, channel: str, value: Any, *, inline: int = INLINE) -> Node:
        if type(value) is not list:
            return self.encode_leaf(channel, value, inline=inline)
        nodes = [self.encode_leaf(channel, each, inline=inline) for each in value]
        return {"list": self._chunk(channel, nodes)}

    def encode_leaf(self, channel: str, value: Any, *, inline: int) -> Node:
        kind, text = self._dump(value)
        if len(text) <= inline:
            return {"as": kind, "text": text}
        text = f"{kind}\n{text}"
        pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
        refs = [self._store(channel, each) for each in pieces]
        return refs[0] if len(refs) == 1 else {"refs": refs}

    def shorten(self, record: Any) -> Any:
        """Return the record, or a node of it if one key cannot hold the record."""
        if len(json.dumps(record)) <= PIECE:
            return record
        return {"record": self.encode_leaf("", json.dumps(record), inline=0)}

    def _chunk(self, channel: str, nodes: list[Node]) -> list[Node]:
        """Replace whole chunks by references to them, and chunks of chunks."""
        whole = len(nodes) - len(nodes) % CHUNK
        chunks: list[Node] = [
            {"chunk": self._store(channel, json.dumps(nodes[at : at + CHUNK]))}
            for at in range(0, whole, CHUNK)
        ]
        if len(chunks) >= CHUNK:
            chunks = self._chunk(channel, chunks)
        return chunks + nodes[whole:]

    def _dump(self, value: Any) -> tuple[str, str]:
        """Return the kind of the value's text, and the text."""
        if self.plain and _is_plain(value):
            if type(value) is str and "\0" not in value and _is_utf8(value):
                return "=text", value
            return "=json", json.dumps(value)
        kind, data = self.serde.dumps_typed(value)
        packed = zlib.compress(data, 9)
        if len(packed) < len(data):
            kind, data = kind + PACKED, packed
        return kind, _to_base32(data)

    def _store(self, channel: str, text: str) -> str:
        ref = self._digest(channel)[:CHANNEL] + self._digest(text)
        self.texts[ref] = text
        return ref

    def _digest(self, text: str) -> str:
        """Digest with the thread's secret: names must not confirm a guessed text."""
        plain = text.encode(errors="surrogatepass")
        return _to_base32(blake2b(plain, digest_size=10, key=self.secret).digest())


def decode_node(node: Node, texts: Mapping[str, str], serde: TypedSerializer) -> Any:
    if isinstance(node, dict) and "list" in node:
        leaves = _iter_all_leaves(node["list"], texts)
        return [decode_node(leaf, texts, serde) for leaf in leaves]
    if isinstance(node, dict) and "text" in node:
        kind, text = node["as"], node["text"]
    else:
        kind, _, text = "".join(
            map(texts.__getitem__, list_references(node))
        ).partition("\n")
    if kind in ("=text", "=json"):
        return text if kind == "=text" else json.loads(text)
    data = base64.b32decode(text.upper())
    if kind.endswith(PACKED):
        kind, data = kind.removesuffix(PACKED), zlib.decompress(data)
    return serde.loads_typed((kind, data))


def iter_leaves(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the leaves of the nodes and the chunks; what is in chunks is not read."""
    for node in nodes:
        yield from node.get("list", [node]) if isinstance(node, dict) else [node]


def list_references(leaf: Node) -> list[str]:
    if isinstance(leaf, str):
        return [leaf]
    return [leaf["chunk"]] if is_chunk(leaf) else leaf.get("refs", [])


def is_chunk(leaf: Node) -> bool:
    return isinstance(leaf, dict) and "chunk" in leaf


def _iter_all_leaves(nodes: Iterable[Node], texts: Mapping[str, str]) -> Iterator[Node]:
    for leaf in nodes:
        if is_chunk(leaf):
            yield from _iter_all_leaves(json.loads(texts[leaf["chunk"]]), texts)
        else:
            yield leaf


def _to_base32(data: bytes) -> str:
    """Return letters and digits only: the hub's search takes none for many words."""
    return base64.b32encode(data).decode().lower()


def _is_plain(value: Any) -> bool:
    """Return whether JSON gives the value back, types included."""
    if type(value) is dict:
        return all(type(key) is str and _is_plain(value[key]) for key in value)
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is float:
        # Neither infinite nor no number.
        return value - value == 0
    return value is None or type(value) in (str, int, bool)


def _is_utf8(text: str) -> bool:
    """Return whether the hub takes the text: it refuses half surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

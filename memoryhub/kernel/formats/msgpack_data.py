"""MessagePack as data: values of JSON, built without any class that a file names.

Pure. Bytes become base64 text, and keys become text. LangGraph packs an object as an
extension with module, class and arguments: the arguments are the value.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from memoryhub.errors import InvalidError

MAX_DEPTH: Final = 64

#: Extensions whose packed value is (module, class, arguments, …), and a bare value.
_OBJECTS, _SNAPSHOT = range(6), 7
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = (">B", ">H", ">I")


def parse(data: bytes, *, max_nodes: int) -> Any:
    """Return the value that the bytes hold.

    Raises InvalidError with the code invalid_msgpack, too_deep or too_many_nodes.
    """
    return _PackedReader(data, [max_nodes]).read_whole(0)


@dataclass(slots=True)
class _PackedReader:
    """Position in packed bytes, and the number of values that may still follow."""

    data: bytes
    nodes: list[int]
    position: int = 0

    def read_whole(self, depth: int) -> Any:
        value = self.read_value(depth)
        if self.position != len(self.data):
            raise InvalidError(code="invalid_msgpack")
        return value

    def read_value(self, depth: int) -> Any:
        self.nodes[0] -= 1
        if self.nodes[0] < 0:
            raise InvalidError(code="too_many_nodes")
        if depth > MAX_DEPTH:
            raise InvalidError(code="too_deep")
        mark = self.take(1)[0]
        if mark < 0x80 or mark >= 0xE0:
            return mark if mark < 0x80 else mark - 0x100
        if mark < 0xC0:
            return self.read_short(mark, depth)
        if mark in _NUMBERS:
            return self.read_number(_NUMBERS[mark])
        if mark in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[mark]
        if 0xD4 <= mark <= 0xD8:
            return self.read_extension(1 << (mark - 0xD4), depth)
        reader, first = self.find_reader(mark)
        return reader(self.read_number(_LENGTHS[mark - first]), depth)

    def read_short(self, mark: int, depth: int) -> Any:
        """Read a value whose length is in its mark."""
        if mark >= 0xA0:
            return self.read_text(mark & 0x1F, depth)
        read = self.read_map if mark < 0x90 else self.read_list
        return read(mark & 0x0F, depth)

    def find_reader(self, mark: int) -> tuple[Callable[[int, int], Any], int]:
        """Find the reader of a value with a length, and the mark of a byte's length."""
        if 0xC4 <= mark <= 0xC6:
            return self.read_bytes, 0xC4
        if 0xC7 <= mark <= 0xC9:
            return self.read_extension, 0xC7
        if 0xD9 <= mark <= 0xDB:
            return self.read_text, 0xD9
        if mark >= 0xDC:
            # Lists and maps have no length of one byte.
            return (self.read_list, 0xDB) if mark < 0xDE else (self.read_map, 0xDD)
        raise InvalidError(code="invalid_msgpack")

    def read_number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def read_text(self, length: int, depth: int) -> str:
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise InvalidError(code="invalid_msgpack") from None

    def read_bytes(self, length: int, depth: int) -> str:
        return b64encode(self.take(length)).decode()

    def read_list(self, length: int, depth: int) -> list[Any]:
        return [self.read_value(depth + 1) for _ in range(length)]

    def read_map(self, length: int, depth: int) -> dict[str, Any]:
        pairs = {}
        for _ in range(length):
            key = self.read_value(depth + 1)
            pairs[key if isinstance(key, str) else str(key)] = self.read_value(
                depth + 1
            )
        return pairs

    def read_extension(self, length: int, depth: int) -> Any:
        """Read an object's arguments; the bytes of an unknown extension as base64."""
        code, inner = self.take(1)[0], self.take(length)
        if code not in _OBJECTS and code != _SNAPSHOT:
            return b64encode(inner).decode()
        value = _PackedReader(inner, self.nodes).read_whole(depth + 1)
        if code == _SNAPSHOT:
            return value
        if not isinstance(value, list) or len(value) < 3:
            raise InvalidError(code="invalid_msgpack")
        return value[2]

    def take(self, length: int) -> bytes:
        end = self.position + length
        if end > len(self.data):
            raise InvalidError(code="invalid_msgpack")
        taken = self.data[self.position : end]
        self.position = end
        return taken

"""Packers: every way there ever was to make a request. Pure.

Recorded contexts name theirs, so none of them ever changes.
"""

from __future__ import annotations

from collections.abc import Callable

from memoryhub.errors import InvalidError
from memoryhub.kernel.levels.contexts import Record, Texts
from memoryhub.kernel.levels.tokens import EST, Tokenizer
from memoryhub.kernel.packing import assembling, pack_2, packing, packing_2
from memoryhub.kernel.packing.packing import Packed, Wanted
from memoryhub.kernel.state.paging_config import Format, Layout

#: From a record and its texts to the request, as UTF-8; KeyError without a text.
ASSEMBLE: dict[str, Callable[..., bytes]] = {
    packing.PACKER: assembling.assemble,
    **dict.fromkeys(pack_2.PACKERS, pack_2.assemble),
}
#: Where each ref stands in it: first byte and end, in the order of the record.
RANGES: dict[str, Callable[..., list[tuple[int, int]]]] = {
    packing.PACKER: assembling.ranges,
    **dict.fromkeys(pack_2.PACKERS, pack_2.ranges),
}
_PACK: dict[Layout, Callable[..., Packed]] = {
    "developer": packing.pack,
    "conversation": packing_2.pack,
}


def pack(wanted: Wanted, texts: Texts, *, tokenizer: Tokenizer = EST) -> Packed:
    """Pack the request of one turn by its thread's layout. Raises TooSmallError."""
    return _PACK[wanted.layout](wanted, texts, tokenizer=tokenizer)


def otherwise(record: Record, shape: Format) -> Record:
    """Return the record of the same request as another API would take it.

    Raises InvalidError for what only chat completions can be asked.
    """
    if record.packer in pack_2.PACKERS:
        return pack_2.otherwise(record, shape)
    if shape != "chat":
        says = "`chat` where `layout` is `developer`"
        raise InvalidError(loc="format", allowed=says)
    return record

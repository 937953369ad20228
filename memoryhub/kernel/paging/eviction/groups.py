"""Groups: a message that calls tools, and the tools' results.

Pure. Groups are found by roles, so that no text has to be opened: results that follow a
message of the assistant at once belong to its calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from memoryhub.kernel.state.pages import build_slot_page_id
from memoryhub.kernel.state.paging import Frame, Paging, list_values

#: Most results of one message that are searched for.
_MOST = 128


def list_group(paging: Paging, frame: Frame, *, slots: int) -> list[Frame]:
    """List the mapped messages that leave together with this frame, itself among them.

    `slots` is the thread's slot count. A result of the newest calls may leave alone.
    """
    head = _find_head(paging, frame)
    if head is None or (frame is not head and head is find_newest_calls(paging, slots)):
        return [frame]
    return [head, *_iter_results(paging, head.entry.slot or 0)]


def list_answered(paging: Paging, slot: int) -> list[Frame]:
    """List a slot's mapped message and the results that follow."""
    head = _find_message(paging, slot)
    following = _iter_results(paging, slot)
    return [*following] if head is None else [head, *following]


def find_newest_calls(paging: Paging, slots: int) -> Frame | None:
    """Find the calls at the thread's end, after which more results may follow."""
    return _find_calls_before(paging, slots)


def is_orphan_result(paging: Paging, slot: int, role: str | None) -> bool:
    """Return whether a message would be a result of calls that are not mapped.

    A tool message that does not follow calls stands by itself.
    """
    if role != "tool":
        return False
    for index in range(slot - 1, max(-1, slot - 1 - _MOST), -1):
        before = _get_role(paging, index)
        if before != "tool":
            return (
                before in ("assistant", None) and _find_message(paging, index) is None
            )
    return False


def list_heads(paging: Paging) -> set[str]:
    """Return the pages of calls whose results are in the working set."""
    results = (f for f in list_values(paging.frames) if f.entry.role == "tool")
    found = (_find_head(paging, each) for each in results)
    return {each.page_id for each in found if each is not None}


def list_companions(paging: Paging, kept: set[str], *, slots: int) -> set[str]:
    """Return the pages that would leave together with one of the pages in `kept`."""
    named = (paging.frames.get(page_id) for page_id in kept)
    together = (list_group(paging, frame, slots=slots) for frame in named if frame)
    return {each.page_id for frames in together for each in frames}


def can_have_results(paging: Paging, frame: Frame, *, slots: int) -> bool:
    """Return whether results may follow; such a message is never lowered."""
    if not is_spoken(frame) or frame.entry.role != "assistant":
        return False
    index = (frame.entry.slot or 0) + 1
    page_id = build_slot_page_id(index)
    after = paging.frames.get(page_id) or paging.hot.get(page_id)
    return index < slots and (after is None or after.entry.role == "tool")


def _find_head(paging: Paging, frame: Frame) -> Frame | None:
    if not is_spoken(frame):
        return None
    if frame.entry.role == "tool":
        return _find_calls_before(paging, frame.entry.slot or 0)
    return frame if frame.entry.role == "assistant" else None


def _find_calls_before(paging: Paging, slot: int) -> Frame | None:
    """Find the calls that a result at `slot` would belong to, if they are mapped."""
    for index in range(slot - 1, max(-1, slot - 1 - _MOST), -1):
        if (role := _get_role(paging, index)) == "assistant":
            return _find_message(paging, index)
        if role not in ("tool", None):
            return None
    return None


def _iter_results(paging: Paging, slot: int) -> Iterator[Frame]:
    for index in range(slot + 1, slot + 1 + _MOST):
        if _get_role(paging, index) not in ("tool", None):
            return
        if (found := _find_message(paging, index)) is not None:
            yield found


def _get_role(paging: Paging, index: int) -> str | None:
    """Return the role; None for a slot neither mapped nor hot: it may be a result."""
    page_id = build_slot_page_id(index)
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return page.entry.role or "" if page else None


def is_spoken(frame: Frame) -> bool:
    """Return whether a frame stands in the conversation as its original message."""
    return frame.entry.slot is not None and not frame.recalled


def _find_message(paging: Paging, index: int) -> Frame | None:
    frame = paging.frames.get(build_slot_page_id(index))
    return frame if frame is not None and is_spoken(frame) else None

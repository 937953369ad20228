"""Groups: a message that calls tools, and what these gave back.

Pure. They are known by their roles, so that nothing has to be opened: results that
follow a message of the assistant at once are of its calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from memoryhub.kernel.state.pages import slot_page_id
from memoryhub.kernel.state.paging import Frame, Paging, values

#: Results of one message that are looked for.
_MOST = 128


def group(paging: Paging, frame: Frame, *, slots: int) -> list[Frame]:
    """Return the mapped messages that leave together with this one, itself among them.

    Of the newest calls of a thread of so many slots, a result may leave alone.
    """
    head = _head(paging, frame)
    if head is None or (frame is not head and head is newest(paging, slots)):
        return [frame]
    return [head, *_results(paging, head.entry.slot or 0)]


def answered(paging: Paging, slot: int) -> list[Frame]:
    """Return a slot's mapped messages and the results that follow."""
    head = _message(paging, slot)
    following = _results(paging, slot)
    return [*following] if head is None else [head, *following]


def newest(paging: Paging, slots: int) -> Frame | None:
    """Return the calls at the end of such a thread: more results may follow."""
    return _before(paging, slots)


def lacks_calls(paging: Paging, slot: int, role: str | None) -> bool:
    """Whether a message would be a result of calls that are not mapped.

    What follows something else than calls is a message of its own kind.
    """
    if role != "tool":
        return False
    for index in range(slot - 1, max(-1, slot - 1 - _MOST), -1):
        before = _role(paging, index)
        if before != "tool":
            return before in ("assistant", None) and _message(paging, index) is None
    return False


def heads(paging: Paging) -> set[str]:
    """Return the pages of calls that stand and fall with results in the working set."""
    results = (f for f in values(paging.frames) if f.entry.role == "tool")
    found = (_head(paging, each) for each in results)
    return {each.page_id for each in found if each is not None}


def leave_together(paging: Paging, kept: set[str], *, slots: int) -> set[str]:
    """Return the pages that would leave together with one of these."""
    named = (paging.frames.get(page_id) for page_id in kept)
    together = (group(paging, frame, slots=slots) for frame in named if frame)
    return {each.page_id for frames in together for each in frames}


def calls(paging: Paging, frame: Frame, *, slots: int) -> bool:
    """Return whether results may follow: then it is shown as it is, or not at all."""
    if not spoken(frame) or frame.entry.role != "assistant":
        return False
    index = (frame.entry.slot or 0) + 1
    page_id = slot_page_id(index)
    after = paging.frames.get(page_id) or paging.hot.get(page_id)
    return index < slots and (after is None or after.entry.role == "tool")


def _head(paging: Paging, frame: Frame) -> Frame | None:
    if not spoken(frame):
        return None
    if frame.entry.role == "tool":
        return _before(paging, frame.entry.slot or 0)
    return frame if frame.entry.role == "assistant" else None


def _before(paging: Paging, slot: int) -> Frame | None:
    """The calls that a result at `slot` would be of, if they are mapped."""
    for index in range(slot - 1, max(-1, slot - 1 - _MOST), -1):
        if (role := _role(paging, index)) == "assistant":
            return _message(paging, index)
        if role not in ("tool", None):
            return None
    return None


def _results(paging: Paging, slot: int) -> Iterator[Frame]:
    for index in range(slot + 1, slot + 1 + _MOST):
        if _role(paging, index) not in ("tool", None):
            return
        if (found := _message(paging, index)) is not None:
            yield found


def _role(paging: Paging, index: int) -> str | None:
    """Who spoke; None for what is neither mapped nor hot: it may be a result."""
    page_id = slot_page_id(index)
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return page.entry.role or "" if page else None


def spoken(frame: Frame) -> bool:
    """Return whether a frame stands in the conversation as its original message."""
    return frame.entry.slot is not None and not frame.recalled


def _message(paging: Paging, index: int) -> Frame | None:
    frame = paging.frames.get(slot_page_id(index))
    return frame if frame is not None and spoken(frame) else None

"""Requests: assembled from a record and texts, with the place of each text."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.kernel.context.contexts import (
    ContextRecord,
    FaultPolicies,
    Manifest,
    ManifestRow,
    Ref,
    Section,
)
from memoryhub.kernel.context.opened import OpenedPage, get_slot_modality
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.packing import prefixes, requests
from memoryhub.kernel.state.pages import Location
from tests.kernel.packing.test_conversation import CALL, MESSAGES, RESULT
from tests.kernel.packs import as_journaled
from tests.oracles.loops import asks
from tests.validators import require_chat

THREAD = UUID(int=1)
RULES = "strict/3"


def make_page(seq: int, role: str | None, content: object) -> OpenedPage:
    return OpenedPage(
        page_id=f"slot-{seq}",
        type="transcript",
        modality=get_slot_modality(content),
        content=content,
        role=role,
        slot=seq,
    )


class Talk:
    """Texts by location, and the record that refers to them."""

    def __init__(self) -> None:
        self.texts: dict[Location, OpenedPage] = {}

    def add(self, role: str | None, content: object) -> Ref:
        seq = len(self.texts) + 1
        self.texts[Location(THREAD, seq, 0)] = make_page(seq, role, content)
        return Ref(seq, 0)

    def add_page(self, text: str, *, part: tuple[int, int] | None = None) -> Ref:
        seq = len(self.texts) + 1
        self.texts[Location(THREAD, seq, 0)] = OpenedPage(
            page_id=f"page-{seq}",
            type="artifact",
            modality="text",
            content={"text": text},
        )
        return Ref(seq, 0, part=part, placed=seq + 100, recalled=True)

    def lowered(self, ref: Ref, text: str) -> Ref:
        seq, whole = len(self.texts) + 1, self.texts[ref.get_location(THREAD)]
        place = Location(THREAD, seq, 2)
        self.texts[place] = OpenedPage(
            page_id=whole.page_id,
            type=whole.type,
            modality="text",
            content=text,
            role=whole.role,
            slot=whole.slot,
        )
        return Ref(seq, 2, message_at=(ref.seq, None))

    def record(
        self,
        history: list[Ref],
        exchange: list[Ref],
        system: tuple[Ref, ...] = (),
        packer: str = "pack/3",
    ) -> ContextRecord:
        rows = (ManifestRow("page-9", "L2", "0", 1),) if self.texts else ()
        listed = Manifest(
            thread="talk",
            turn=3,
            mapped=2,
            policies=FaultPolicies(True, 3, 3, 9),
            rows=rows,
        )
        names = ("system", "rules", "history", "manifest", "exchange", "tools")
        refs = {"system": system, "history": history, "exchange": exchange}
        return ContextRecord(
            packer=packer,
            mode="strict",
            budget=9_000,
            sections=tuple(
                Section(name=name, refs=tuple(refs.get(name, ()))) for name in names
            ),
            rules=RULES,
            manifest=listed,
            tools="tools/2",
        )


def request(talk: Talk, record: ContextRecord) -> dict[str, Any]:
    assert as_journaled(as_journaled(record)) == as_journaled(record)
    made = requests.assemble(record, talk.texts, thread=THREAD)
    found: dict[str, Any] = json.loads(made)
    return found


def test_request_says_the_head_then_the_talk_then_what_there_is() -> None:
    talk = Talk()
    system = talk.add("system", "Be brief.")
    history = [talk.add("user", "Look it up."), talk.add("assistant", CALL)]
    history.append(talk.lowered(talk.add("tool", RESULT), "Two rows."))
    history.append(talk.add_page("The rules of fares."))
    exchange = [talk.add("user", "And now?")]
    found = request(talk, talk.record(history, exchange, (system,)))
    messages = found["messages"]
    require_chat(messages)
    assert [each["role"] for each in messages] == [
        *("system", "user", "assistant", "tool"),
        *("assistant", "tool", "assistant", "tool", "user"),
    ]
    assert messages[0]["content"].startswith("Be brief.\n\n<VM:RULES>")
    assert messages[3]["tool_call_id"] == RESULT["tool_call_id"]
    assert messages[3]["content"] == "[slot-4, shortened]\nTwo rows."
    assert messages[5]["content"].endswith("\n\nThe rules of fares.")
    assert messages[6]["tool_calls"][0]["function"]["name"] == "page_list"
    assert (
        json.loads(messages[7]["content"])["available_pages"][0]["page_id"] == "page-9"
    )
    assert messages[-1] == {"role": "user", "content": "And now?"}


def test_head_is_spoken_by_the_role_that_the_packer_names() -> None:
    talk = Talk()
    record = talk.record([], [talk.add("user", "Hi.")], packer="pack/3-developer")
    messages = request(talk, record)["messages"]
    assert messages[0]["role"] == "developer"


@settings(deadline=None)
@given(st.lists(MESSAGES, max_size=6), st.integers(0, 6), st.text(max_size=9))
def test_ref_stands_in_the_request_at_its_recorded_place(
    messages: list[tuple[str | None, object]], begins: int, prompt: str
) -> None:
    talk = Talk()
    system = talk.add("system", f"Prompt {prompt}")
    refs = [talk.add(*each) for each in messages]
    refs.append(talk.add_page("Rows and rows.", part=(5, 14)))
    record = talk.record(refs[:begins], refs[begins:], (system,))
    made = requests.assemble(record, talk.texts, thread=THREAD)
    whole = json.loads(made)
    require_chat(whole["messages"])
    places = requests.list_ref_ranges(record, talk.texts, thread=THREAD)
    assert len(places) == len(refs) + 1
    head, *rest = (made[start:end].decode() for start, end in places)
    assert json.loads(f'"{head}"') == f"Prompt {prompt}"
    # Parallel calls of several messages are one, of which each has a part.
    assert json.loads(f"[{','.join(filter(None, rest))}]") == [
        m for m in whole["messages"][1:] if not _lists(m, whole["messages"])
    ]
    written = requests.render(record, talk.texts, thread=THREAD)
    assert written.request.encode() == made
    assert [*written.sections] == [section.name for section in record.sections]


def _lists(message: dict[str, object], messages: list[dict[str, object]]) -> bool:
    """Tell whether a message is of the manifest's call."""
    for call, result in pairwise(messages):
        calls = call.get("tool_calls")
        if isinstance(calls, list) and calls[0]["function"]["name"] == "page_list":
            return message in (call, result)
    return False


def test_request_prefix_is_shared_within_an_exchange() -> None:
    talk = Talk()
    history = [talk.add("user", "One."), talk.add("assistant", "Two.")]
    question = talk.add("user", "Three?")
    before = talk.record(history, [question])
    more = [
        question,
        talk.add("assistant", asks("call_1", "p")),
        talk.add_page("Here it is."),
    ]
    after = talk.record(history, more)
    made = requests.assemble(before, talk.texts, thread=THREAD)
    upto = made.index(b"Three?") + len(b'Three?"}')
    assert count_shared_tokens(talk, before, after) == estimate_tokens(
        made[:upto].decode()
    )
    whole = requests.assemble(after, talk.texts, thread=THREAD)
    assert count_shared_tokens(talk, after, after) == estimate_tokens(whole.decode())


def count_shared_tokens(talk: Talk, *records: ContextRecord) -> int:
    """Return the number of tokens at which two requests part."""
    previous, request = (
        prefixes.RecordedRequest(record=each, texts=talk.texts, thread=THREAD)
        for each in records
    )
    return prefixes.measure_common_prefix(previous, request).tokens

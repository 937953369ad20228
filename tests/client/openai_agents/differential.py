"""Sessions of the hub beside the SDK's SQLiteSession: equal answers, step by step."""

import asyncio
import json
import os
import uuid
from typing import Any

from agents import (  # type: ignore[import-not-found]  # in an environment of its own
    Session,
    SQLiteSession,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub_client import AsyncClient, Conflict, slots
from memoryhub_client.openai_agents import MemoryHubSession

TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8
)
ITEMS = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "developer"]), "content": TEXT}
    ),
    st.builds(
        lambda text, id_: {
            "id": id_,
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        },
        TEXT,
        TEXT,
    ),
    st.builds(
        lambda a, b: {
            "type": "function_call",
            "call_id": a,
            "name": "look",
            "arguments": b,
        },
        TEXT,
        TEXT,
    ),
    st.builds(
        lambda a, b: {"type": "function_call_output", "call_id": a, "output": b},
        TEXT,
        TEXT,
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("reasoning"),
            "summary": st.just([]),
            "x": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        }
    ),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add_items"), st.lists(ITEMS, max_size=4)),
        st.tuples(st.just("get_items"), st.sampled_from([None, -1, 0, 1, 2, 9])),
        st.tuples(st.just("pop_item")),
        st.tuples(st.just("clear_session")),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def compare_sessions(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(compare(steps))


async def compare(steps: list[tuple[Any, ...]]) -> None:
    name = f"session {uuid.uuid4()}"
    theirs = SQLiteSession(name)
    async with AsyncClient(
        os.environ["MEMORYHUB_URL"], os.environ["MEMORYHUB_KEY"]
    ) as hub:
        ours = MemoryHubSession(hub, name, user_id="ada")
        assert isinstance(ours, Session)
        for act, *given_ in [*steps, ("get_items", None)]:
            got = [await getattr(each, act)(*given_) for each in (ours, theirs)]
            # As text: the order of keys and the kind of a number count, too.
            assert json.dumps(got[0]) == json.dumps(got[1]), (act, given_)


async def check_two_clients() -> None:
    """Give each of two clients that pop at once another item."""
    async with AsyncClient(
        os.environ["MEMORYHUB_URL"], os.environ["MEMORYHUB_KEY"]
    ) as hub:
        name = str(uuid.uuid4())
        both = [MemoryHubSession(hub, name) for _ in range(2)]
        items = [{"role": "user", "content": str(n)} for n in range(450)]
        await both[0].add_items(items)
        popped = await asyncio.gather(*(each.pop_item() for each in both * 3))
        assert sorted(each["content"] for each in popped if each) == [
            str(n) for n in range(444, 450)
        ]
        await both[0].clear_session()
        assert await both[1].get_items() == []
        kept = slots.list_all(both[0].thread, struck="true", limit=200)
        assert len([each async for each in hub.each(kept)]) == 450


async def check_persons() -> None:
    """Refuse another person's session, to read and to pop as to add."""
    async with AsyncClient(
        os.environ["MEMORYHUB_URL"], os.environ["MEMORYHUB_KEY"]
    ) as hub:
        name = str(uuid.uuid4())
        item = {"role": "user", "content": "mine"}
        await MemoryHubSession(hub, name, user_id="ada").add_items([item])
        other = MemoryHubSession(hub, name, user_id="eve")
        acts = (other.get_items(), other.pop_item(), other.clear_session())
        told = await asyncio.gather(*acts, return_exceptions=True)
        assert all(isinstance(each, Conflict) for each in told), told
        assert await MemoryHubSession(hub, name, user_id="ada").get_items() == [item]


compare_sessions()
asyncio.run(check_persons())
asyncio.run(check_two_clients())

"""Google ADK's session service beside its own in memory; runs where ADK is installed.

ADK needs older versions of packages that the hub locks.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any
from uuid import uuid4

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai.types import Blob, Content, FunctionCall, FunctionResponse, Part
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub_client import AsyncClient, TooLarge, keys, slots, threads
from memoryhub_client.adk import MemoryHubSessionService

REFUSALS = AlreadyExistsError, SessionNotFoundError
PARTS = [
    Part(text="Where is \0 it?"),
    Part(text="Hm.", thought=True, thought_signature=b"\xff\0"),
    Part(function_call=FunctionCall(id="c", name="track", args={"parcel": 1.5})),
    Part(function_response=FunctionResponse(id="c", name="track", response={"a": 1})),
    Part(inline_data=Blob(data=b"\0\xff", mime_type="image/png")),
]
USERS, IDS = ("ann", "ü /"), (" s1 ", "s2", "ü / " * 50)
names = st.sampled_from(["app:a", "user:a", "user:ü", "temp:a", "a", "b", "x" * 200])
values = st.one_of(
    st.none(),
    st.integers(-9, 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text('aü\u2028"\\', max_size=3),
    st.dictionaries(
        st.sampled_from(["a", "ü"]), st.lists(st.integers(0, 3)), max_size=2
    ),
)
states = st.dictionaries(names, values, max_size=3)
events = st.builds(
    lambda author, parts, state, at, partial: Event(
        author=author,
        content=Content(role="user", parts=parts) if parts else None,
        state=state,
        timestamp=at,
        partial=partial,
    ),
    st.sampled_from(["user", "agent_1"]),
    st.lists(st.sampled_from(PARTS), max_size=3),
    states,
    st.sampled_from([1.25, 2.5, 1_795_000_000.000001]),
    st.sampled_from([None, None, None, True]),
)
configs = st.builds(
    GetSessionConfig,
    num_recent_events=st.none() | st.integers(0, 3),
    after_timestamp=st.none() | st.sampled_from([1.25, 2.0]),
)
acts = st.one_of(
    st.tuples(st.just("create"), states),
    st.tuples(st.just("get"), configs),
    *[st.tuples(st.just("append"), events)] * 3,
    st.tuples(st.just("again"), events),
    st.tuples(st.just("list_all"), st.booleans()),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("user_state"), st.none()),
)
steps = st.tuples(st.sampled_from(USERS), st.sampled_from(IDS), acts)


class Side:
    """One of the two services, and the sessions that the script has got from it."""

    def __init__(self, service: BaseSessionService, app: str) -> None:
        self.service, self.app = service, app

    async def run(self, user: str, name: str, act: str, given_: Any) -> Any:
        where = {"app_name": self.app, "user_id": user}
        try:
            if act == "list_all":
                found = await self.service.list_sessions(
                    app_name=self.app, user_id=user if given_ else None
                )
                return sorted(map(dump, found.sessions), key=str)
            if act == "user_state":
                return await self.service.get_user_state(**where)
            if act == "create":
                return dump(
                    await self.service.create_session(
                        **where, state=given_, session_id=name
                    )
                )
            if act == "delete":
                return await self.service.delete_session(**where, session_id=name)
            if act == "get":
                return dump(
                    await self.service.get_session(
                        **where, session_id=name, config=given_
                    )
                )
            return await self.append(where, name, given_, twice=act == "again")
        except REFUSALS as refusal:
            return type(refusal).__name__

    async def append(
        self, where: dict[str, str], name: str, event: Event, *, twice: bool
    ) -> Any:
        session = await self.service.get_session(**where, session_id=name)
        session = session or Session(id=name, last_update_time=9e9, **where)
        own = event.model_copy(deep=True)
        done = [await self.service.append_event(session, own)]
        if twice:
            other = await self.service.get_session(**where, session_id=name)
            done += [
                await self.service.append_event(each, own) for each in (session, other)
            ]
        return dump(session), [each.model_dump_json() for each in done]


def dump(session: Session | None) -> Any:
    """Return all of a session but when it was made, which differs."""
    if session is None:
        return None
    told = session.model_dump(mode="json", exclude={"last_update_time"})
    # Of events also the bytes.
    return told, [each.model_dump_json() for each in session.events]


async def run_script(script: list[Any]) -> None:
    app = f"app/{uuid4()}"
    async with AsyncClient(
        os.environ["MEMORYHUB_URL"], os.environ["MEMORYHUB_KEY"]
    ) as hub:
        ours = Side(MemoryHubSessionService(hub), app)
        theirs = Side(InMemorySessionService(), app)
        for user, name, act in [(USERS[0], IDS[0], ("create", {})), *script]:
            assert await ours.run(user, name, *act) == await theirs.run(
                user, name, *act
            )
            ours.service = MemoryHubSessionService(hub)


@settings(max_examples=25, deadline=None)
@given(script=st.lists(steps, min_size=5, max_size=14))
def compare(script: list[Any]) -> None:
    asyncio.run(run_script(script))


async def try_stale_sessions() -> None:
    """Append to an old session, and from two sessions at once; read the messages."""
    where: dict[str, Any] = {"app_name": "shop", "user_id": "ann", "session_id": "talk"}
    async with AsyncClient(
        os.environ["MEMORYHUB_URL"], os.environ["MEMORYHUB_KEY"]
    ) as hub:
        service = MemoryHubSessionService(hub)
        old = await service.create_session(**where)
        both = [await service.get_session(**where) for _ in range(2)]
        said = Content(parts=[Part(text="Where is my parcel?")])
        new = [Event(author="user", content=said) for _ in range(2)]
        done = await asyncio.gather(
            *map(service.append_event, both, new), return_exceptions=True
        )
        assert sorted(map(type, done), key=str) == [StaleSessionError, Event]
        for session in (old, old.model_copy(deep=True)):
            try:
                await service.append_event(session, Event(author="user"))
            except StaleSessionError:
                continue
            raise AssertionError("a stale session was written")
        asked = threads.search(user_id="ann", labels={"app": "adk:shop"})
        (thread,) = [each["thread"] async for each in hub.each(asked)]
        listed = [each async for each in hub.each(slots.list_all(thread))]
        assert [each["type"] for each in listed] == ["chat.user"]
        assert listed[0]["content"]["content"] == "Where is my parcel?"
        # A process that died between an event's keys and its messages.
        late = Event(author="user", content=said)
        await hub.send(keys.put(thread, f"event.{late.id}", None))
        for _ in range(2):
            session = await service.get_session(**where)
            await service.append_event(session, late)
        session = await service.get_session(**where)
        assert session
        assert [each.id for each in session.events][1:] == [late.id]
        # A picture that no request holds: not even the event's key is written.
        picture = Part(inline_data=Blob(mime_type="image/png", data=b"\0" * 900_000))
        large = Event(author="user", content=Content(parts=[picture]))
        try:
            await service.append_event(session, large)
            raise AssertionError("an event beyond a request was taken")
        except TooLarge:
            listing = keys.list_all(thread, glob=f"event.{large.id}")
            assert not [each async for each in hub.each(listing)]
        await service.delete_session(**where)
        assert not [each async for each in hub.each(slots.list_all(thread))]


if __name__ == "__main__":
    compare()
    asyncio.run(try_stale_sessions())

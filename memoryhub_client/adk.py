"""Google ADK's sessions as threads of the hub, whose messages people can read.

service = MemoryHubSessionService(AsyncClient("http://127.0.0.1:8000", key))
runner = Runner(app_name="shop", agent=agent, session_service=service)

A session is a thread of the person `user_id`, whose name has a keyed digest in place of
the `user_id`. Each event is one or more messages of the thread. The last one carries
the event's JSON, which is what is loaded. State is keys, `state.<name>`: a session's in
its thread, `user:` in a thread of the person's, `app:` in the thread `adk:<app>`. State
of the app cannot be a person's: erasing a person leaves it. `temp:` is not stored.

The service answers as `InMemorySessionService` of google-adk 2.13, but:

- An event with the id of a stored event is stored already, even if it differs.
- An event is refused with `StaleSessionError` if its session has newer events.
- State is JSON without U+0000, at most 198 names at once; others raise errors.
- An event and its state are several writes. Append an event again if that failed.
- An event that no request holds (1 MiB, unless the hub takes more) is `TooLarge`; then
  nothing of it is written.
- A deleted session's messages are struck: lists, requests and searches leave them out,
  and only an erasure of the thread or its person takes their texts.

Events have the order of arrival. The key needs access to the whole project.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import uuid4

from memoryhub_client import keys, slots, threads
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.batches import cut_batches
from memoryhub_client.escapes import build_name
from memoryhub_client.extras import require_extra
from memoryhub_client.kept_items import (
    build_slots,
    find_item,
    list_indexes,
    strike_slots,
)
from memoryhub_client.keys import KeyChange
from memoryhub_client.problems import Conflict, NotFound
from memoryhub_client.slots import Slot

with require_extra("adk"):
    from google.adk.errors._stale_session_error import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from google.adk.sessions import BaseSessionService, Session, State
    from google.adk.sessions.base_session_service import (
        GetSessionConfig,
        ListSessionsResponse,
    )

KIND, KEY = "adk", "session"
#: The most keys that the hub grants a thread: a session has one for each event.
CONFIG = {"max_keys": 100_000}
Values = dict[str, Any]


class StoredSession(NamedTuple):
    """A session without events, and what is known of its thread."""

    thread: str
    #: Tells events of this session from those of a deleted one of its name.
    made: str
    #: Seq of its key.
    seq: int
    about: dict[str, Any]
    state: Values


class MemoryHubSessionService(BaseSessionService):
    """A session service in MemoryHub."""

    def __init__(self, hub: AsyncClient) -> None:
        self.hub = hub
        self._secrets: dict[str, bytes] = {}

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        name = (session_id or "").strip() or str(uuid4())
        # An event turns its state into JSON as ADK does.
        event = Event(actions=EventActions(state_delta=state or {}))
        scopes = split_state(dump_state(event))
        thread = await self._build_thread(app_name, user_id, name)
        labels = {"app": build_app_thread(app_name)}
        making = threads.put(thread, user_id=user_id, labels=labels, config=CONFIG)
        await self.hub.send(making)
        about = {
            "app_name": app_name,
            "user_id": user_id,
            "id": name,
            "made": uuid4().hex,
            "last_update_time": event.timestamp,
        }
        changes = [set_key(KEY, about), *build_changes(scopes["session"])]
        changes[0]["if_none_match"] = "*"
        try:
            await self.hub.send(keys.batch(thread, changes))
        except Conflict as refusal:
            message = f"Session with id {name} already exists."
            raise AlreadyExistsError(message) from refusal
        await self._write_shared(app_name, user_id, scopes)
        stored = await self._find_stored(thread)
        if stored is None:
            raise SessionNotFoundError(f"Session {name} not found.")
        return await self._build_session(stored)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        name = await self._build_thread(app_name, user_id, session_id.strip())
        stored = await self._find_stored(name)
        if stored is None:
            return None
        config = config or GetSessionConfig()
        most = config.num_recent_events
        events: list[Event] = []
        async for item in self._iter_items(stored):
            early = item["at"] < (config.after_timestamp or float("-inf"))
            if early or len(events) == most:
                break
            events.append(Event.model_validate_json(item["json"]))
        session = await self._build_session(stored)
        session.events = events[::-1]
        return session

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        labels = {"app": build_app_thread(app_name)}
        listing = threads.list_all(labels=labels, limit=200)
        if user_id is not None:
            listing = threads.search(user_id=user_id, labels=labels, limit=200)
        sessions = [
            await self._build_session(stored)
            async for thread in self.hub.each(listing)
            if (stored := await self._find_stored(thread["thread"]))
        ]
        sessions.sort(key=lambda each: (each.last_update_time, each.user_id, each.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(
        self, *, app_name: str, user_id: str, session_id: str
    ) -> None:
        name = await self._build_thread(app_name, user_id, session_id.strip())
        if await self._find_stored(name):
            # Before the keys go: a deletion that breaks off can be asked for again.
            await strike_slots(self.hub, name, await list_indexes(self.hub, name))
            await self.hub.send(keys.clear(name))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return await self._read_state(await self._build_thread(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        name = await self._build_thread(session.app_name, session.user_id, session.id)
        stored = await self._find_stored(name)
        if stored is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        delta = {**event.actions.state_delta}
        self._trim_temp_delta_state(event)
        key = build_name("event.", event.id)
        about = {**stored.about, "last_update_time": event.timestamp}
        scopes = split_state(dump_state(event))
        # Before the first write, since an event may be larger than a request.
        batches = cut_batches(build_event_slots(stored, event), self.hub.body_bytes)
        changes = [
            set_key(key, None),
            set_key(KEY, about),
            *build_changes(scopes["session"]),
        ]
        changes[0]["if_none_match"] = "*"
        changes[1]["if_match"] = read_seq(session, stored)
        has_event = False
        try:
            seq = (await self.hub.send(keys.batch(name, changes)))["items"][1]["seq"]
        except (Conflict, NotFound) as refusal:
            if not await self._has_key(name, key):
                message = "The session has newer events: get it again."
                raise StaleSessionError(message) from refusal
            seq, has_event = stored.seq, await self._has_event(stored, event.id)
        if not has_event:
            for batch in batches:
                await self.hub.send(slots.append_batch(name, batch))
        await self._write_shared(session.app_name, session.user_id, scopes)
        if has_event:
            return event
        event.actions.state_delta = delta
        session.last_update_time = event.timestamp
        note_seq(session, seq)
        return await super().append_event(session, event)

    async def _build_session(self, stored: StoredSession) -> Session:
        about = {**stored.about}
        del about["made"]
        app, user = about["app_name"], about["user_id"]
        state = {**stored.state}
        for prefix, thread in (
            (State.APP_PREFIX, build_app_thread(app)),
            (State.USER_PREFIX, await self._build_thread(app, user)),
        ):
            shared = await self._read_state(thread)
            state |= {prefix + name: value for name, value in shared.items()}
        session = Session(**about, state=state)
        note_seq(session, stored.seq)
        return session

    async def _find_stored(self, thread: str) -> StoredSession | None:
        state: Values = {}
        found: dict[str, Any] | None = None
        try:
            async for item in self._iter_keys(thread, "s*"):
                if item["key"] == KEY:
                    found = item
                else:
                    state[item["value"]["name"]] = item["value"]["value"]
        except NotFound:
            return None
        if found is None:
            return None
        about = found["value"]
        return StoredSession(thread, about["made"], found["seq"], about, state)

    async def _read_state(self, thread: str) -> Values:
        try:
            values = [
                item["value"] async for item in self._iter_keys(thread, "state.*")
            ]
        except NotFound:
            return {}
        return {each["name"]: each["value"] for each in values}

    async def _write_shared(
        self, app_name: str, user_id: str, scopes: Mapping[str, Values]
    ) -> None:
        """Write the state of the app and of the user, which sessions share."""
        if changes := build_changes(scopes["app"]):
            await self.hub.send(keys.batch(build_app_thread(app_name), changes))
        if changes := build_changes(scopes["user"]):
            name = await self._build_thread(app_name, user_id)
            await self.hub.send(threads.put(name, user_id=user_id))
            await self.hub.send(keys.batch(name, changes))

    async def _iter_items(self, stored: StoredSession) -> AsyncIterator[dict[str, Any]]:
        """Yield the items of the session's events, newest first."""
        listing = slots.list_all(stored.thread, order="desc", limit=200)
        async for slot in self.hub.each(listing):
            item = find_item(slot, KIND)
            if item and item["made"] == stored.made:
                yield item

    async def _has_event(self, stored: StoredSession, event_id: str) -> bool:
        async for item in self._iter_items(stored):
            if item["id"] == event_id:
                return True
        return False

    async def _has_key(self, thread: str, key: str) -> bool:
        try:
            await self.hub.send(keys.get(thread, key))
        except NotFound:
            return False
        return True

    def _iter_keys(self, thread: str, glob: str) -> AsyncIterator[dict[str, Any]]:
        return self.hub.each(keys.list_all(thread, glob=glob, values=True, limit=200))

    async def _build_thread(
        self, app_name: str, user_id: str, session_id: str = ""
    ) -> str:
        """Build the name of a session's thread, or of the user's own."""
        secret = await self._get_secret(app_name)
        user = blake2b(user_id.encode(), digest_size=10, key=secret).hexdigest()
        prefix = f"{build_app_thread(app_name)}:{user}"
        return build_name(f"{prefix}:", session_id) if session_id else prefix

    async def _get_secret(self, app_name: str) -> bytes:
        """Read the app's secret, which its first use makes."""
        if app_name not in self._secrets:
            thread, made = build_app_thread(app_name), secrets.token_hex(16)
            try:
                await self.hub.send(keys.put(thread, "secret", made, if_none_match="*"))
            except Conflict:
                made = (await self.hub.send(keys.get(thread, "secret")))["value"]
            self._secrets[app_name] = bytes.fromhex(made)
        return self._secrets[app_name]


def build_app_thread(app_name: str) -> str:
    return build_name("adk:", app_name)


# Revisions of sessions


def read_seq(session: Session, stored: StoredSession) -> int:
    """Return the seq that the session was read at. Raises StaleSessionError."""
    marker = session._storage_update_marker  # noqa: SLF001  # ADK's place for it
    if marker is not None:
        return int(marker)
    if stored.about["last_update_time"] > session.last_update_time:
        raise StaleSessionError("The session has newer events: get it again.")
    return stored.seq


def note_seq(session: Session, seq: int) -> None:
    session._storage_update_marker = str(seq)  # noqa: SLF001


# State


def dump_state(event: Event) -> Values:
    state: Values = event.model_dump(mode="json")["actions"]["state_delta"]
    return state


def split_state(state: Values) -> dict[str, Values]:
    """Split state by the prefixes of its names, without what is temporary."""
    scopes: dict[str, Values] = {"app": {}, "user": {}, "session": {}}
    for name, value in state.items():
        if name.startswith(State.APP_PREFIX):
            scopes["app"][name.removeprefix(State.APP_PREFIX)] = value
        elif name.startswith(State.USER_PREFIX):
            scopes["user"][name.removeprefix(State.USER_PREFIX)] = value
        elif not name.startswith(State.TEMP_PREFIX):
            scopes["session"][name] = value
    return scopes


def set_key(key: str, value: Any) -> KeyChange:
    return {"op": "set", "key": key, "value": value}


def build_changes(state: Values) -> list[KeyChange]:
    return [
        set_key(build_name("state.", name), {"name": name, "value": value})
        for name, value in state.items()
    ]


# Messages for people, and for the hub's search, in the shape of chat completions


def build_event_slots(stored: StoredSession, event: Event) -> list[Slot]:
    item = {
        "made": stored.made,
        "id": event.id,
        "at": event.timestamp,
        "json": event.model_dump_json(),
    }
    at = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
    return build_slots([*iter_messages(event)], KIND, item, agent_at=at)


def iter_messages(event: Event) -> Iterator[dict[str, Any]]:
    """Yield the results of calls, and then what the author says."""
    lines: list[str] = []
    thoughts: list[str] = []
    calls = []
    for part in (event.content and event.content.parts) or []:
        if done := part.function_response:
            said = {"tool_call_id": done.id, "content": json.dumps(done.response)}
            yield {"role": "tool", "name": done.name, **said}
        elif call := part.function_call:
            function = {"name": call.name, "arguments": json.dumps(call.args or {})}
            calls.append({"id": call.id, "type": "function", "function": function})
        elif part.text is not None:
            (thoughts if part.thought else lines).append(part.text)
        else:
            lines.append(f"[{', '.join(part.model_dump(exclude_none=True))}]")
    if not lines and not thoughts and not calls:
        return
    role = "user" if event.author == "user" else "assistant"
    built: dict[str, Any] = {"role": role, "content": "\n".join(lines)}
    if role == "assistant" and event.author:
        built["name"] = event.author
    if thoughts:
        built["reasoning_content"] = "\n".join(thoughts)
    yield built | {"tool_calls": calls} if calls else built

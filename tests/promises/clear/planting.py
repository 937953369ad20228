"""Canaries: texts that occur nowhere else, planted by every way in.

Content and ids are `planted` and must never be met in the clear. Names stand in the
clear lawfully while they are somebody's, and are kept apart.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.promises.journal.clients import Client, build_slot


@dataclass(slots=True)
class Canaries:
    """Canaries by the place where each enters."""

    planted: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    #: Of their own each, so that neither is found by looking for the other.
    stem: str = field(default_factory=lambda: f"cnry{secrets.token_hex(4)}")
    name_stem: str = field(default_factory=lambda: f"name{secrets.token_hex(4)}")

    def plant_text(self, place: str, *, beyond_ascii: bool = False) -> str:
        text = self.stem + secrets.token_hex(8) + ("-ж漢\U0001f600" * beyond_ascii)
        self.planted[f"{place} {len(self.planted)}"] = text
        return text

    def name(self, place: str) -> str:
        """Return a canary that may stand in the clear."""
        text = self.name_stem + secrets.token_hex(8)
        self.names[f"{place} {len(self.names)}"] = text
        return text

    def plant_value(self, place: str) -> dict[str, Any]:
        """Return a JSON value with canaries at every depth, also as a key."""
        return {
            self.plant_text(f"{place}: key"): 1,
            "text": self.plant_text(f"{place}: text") * 40,
            "list": [[self.plant_text(f"{place}: list", beyond_ascii=True)]],
        }

    def get_name(self, place: str) -> str:
        """Return the first name that was planted at a place."""
        return next(text for at, text in self.names.items() if at.startswith(place))

    @property
    def texts(self) -> set[str]:
        return set(self.planted.values())

    @property
    def lawful(self) -> set[str]:
        return set(self.names.values())


def told(*answers: Any, wanted: set[int]) -> Iterator[str]:
    for number, answer in enumerate(answers):
        assert answer.status in wanted, (number, answer)
        yield json.dumps(answer.body, ensure_ascii=False)


OK = {200, 201}


@dataclass(frozen=True, slots=True)
class Planter:
    """Writer to one subject's memory by every way that agents have."""

    client: Client
    canaries: Canaries
    user_id: str

    def everything(self) -> list[str]:
        """Write a thread with all possible records, and a fork; return the answers."""
        thread = self.canaries.name("thread")
        return [
            *self.described(thread),
            *self.write_slots(thread),
            *self.pages(thread),
            *self.modalities(thread),
            *self.take_turns(thread),
            *self.memory(thread),
            *self.fork(thread),
            *self.send_refused(thread),
        ]

    def described(self, thread: str) -> Iterator[str]:
        name = self.canaries.name
        body = {
            "user_id": self.user_id,
            "scope": {
                "agent_type": name("agent_type"),
                "agent_instance": name("agent_instance"),
                "session": name("session"),
            },
            "labels": {name("label"): name("label's value"), "kept": 1},
        }
        yield from told(
            self.client.put(f"/threads/{thread}", body),
            self.client.send("PATCH", f"/threads/{thread}", {"labels": body["labels"]}),
            self.client.post("/threads:search", {"user_id": self.user_id}),
            wanted=OK,
        )

    def write_slots(self, thread: str) -> Iterator[str]:
        new, value, name = (
            self.canaries.plant_text,
            self.canaries.plant_value,
            self.canaries.name,
        )
        handler = {
            "own_name": name("own_name"),
            "usage_instructions": new("usage_instructions"),
            "todo_nudge": new("todo_nudge", beyond_ascii=True),
        }
        at = f"/threads/{thread}/slots"
        sender = {
            "from": name("from"),
            "to": name("to"),
            "type": f"chat.{name('type')}",
        }
        yield from told(
            self.client.append(thread, value("slot")),
            self.client.append(thread, new("bare text")),
            self.client.post(
                at,
                {**build_slot(value("with handler"), handler=handler), **sender},
                Idempotency_Key=new("Idempotency-Key"),
            ),
            self.client.post(
                f"{at}:batch", {"items": [build_slot(value("batch")) for _ in range(5)]}
            ),
            self.client.append(thread, {"role": "user", "content": new("chat")}),
            self.client.get(at),
            wanted=OK,
        )

    def more(self, thread: str, *, count: int) -> Iterator[str]:
        """Append many messages, two hundred at a time."""
        new, at = self.canaries.plant_text, f"/threads/{thread}/slots:batch"
        for _ in range(0, count, 200):
            items = [build_slot(new("more")) for _ in range(200)]
            yield from told(self.client.post(at, {"items": items}), wanted=OK)
        # So that pages leave the working set together.
        smaller = {"config": {"budget_tokens": 8_000}}
        patched = self.client.send("PATCH", f"/threads/{thread}", smaller)
        yield from told(patched, wanted=OK)

    def pages(self, thread: str) -> Iterator[str]:
        """Write a page with every field, and act on it in every way."""
        new, at = self.canaries.plant_text, f"/threads/{thread}"
        page, other = self.canaries.name("page"), self.canaries.name("page")
        text = " ".join(f"{new('long')} and more of it." for _ in range(30))
        body = {
            **_build_page("text", {"text": text}),
            "provenance": ["slot-0"],
            "hint": new("hint"),
            "meta": {"mime_type": "text/plain", new("meta: key"): new("meta")},
            "importance": 0.9,
        }
        here, send = f"{at}/pages/{page}", self.client.send
        short = _build_page("text", {"text": new("batch of pages")})
        yield from told(
            self.client.put(here, body),
            send("PATCH", here, {"content": {"text": new("patched") * 30}}),
            send("PATCH", here, {"hint": new("another hint")}),
            self.client.put(here, {**body, "content": {"text": new("version 3")}}),
            self.client.post(
                f"{at}/pages:batch",
                {"items": [{"page_id": other, "map": False, **short}]},
            ),
            self.client.post(
                f"{at}/pages", _build_page("text", {"text": new("named by us")})
            ),
            self.client.put(f"{at}/system-prompt", {"text": new("system prompt")}),
            self.client.post(f"{at}/pages/{other}/fault", {"level": 1}),
            self.client.post(f"{here}/reference", {"how": "cited"}),
            self.client.post(f"{here}/pin", {}),
            self.client.get(f"{at}/pages/{other}?level=1"),
            send("DELETE", f"{at}/pages/{other}"),
            wanted=OK,
        )

    def modalities(self, thread: str) -> Iterator[str]:
        new = self.canaries.plant_text
        coded = base64.b64encode(new("base64").encode()).decode()
        stamp = {"at_seconds": 1.5, "text": new("timestamps")}
        contents: dict[str, dict[str, Any]] = {
            "image": {
                "caption": new("caption"),
                "url": f"https://example.com/{new('url')}",
                "base64": coded,
                "embedding": [0.25, -1.5],
            },
            "audio": {
                "transcript": new("transcript"),
                "timestamps": [stamp],
                "url": f"https://example.com/{new('audio url')}",
            },
            "video": {
                "scenes": [{"at_seconds": 2, "caption": new("scene")}],
                "transcript": new("video transcript"),
                "topic": new("topic"),
            },
            "structured": {
                "data": self.canaries.plant_value("structured"),
                "schema_name": new("schema_name"),
            },
        }
        for modality, content in contents.items():
            at = f"/threads/{thread}/pages/{self.canaries.name(modality)}"
            yield from told(
                self.client.put(at, _build_page(modality, content)), wanted=OK
            )

    def take_turns(self, thread: str) -> Iterator[str]:
        """Pack contexts of all records, and call tools."""
        new, at = self.canaries.plant_text, f"/threads/{thread}"
        message = {"role": "user", "content": new("of a turn")}
        asked = {"page_id": "slot-0", "target_level": 0}
        call = {"name": "page_fault", "arguments": json.dumps(asked)}
        yield from told(
            self.client.post(f"{at}/turns", {"items": [build_slot(message)]}),
            self.client.post(
                f"{at}/tool-calls",
                {"id": new("call id"), "type": "function", "function": call},
            ),
            self.client.post(f"{at}/turns", {"mode": "relaxed"}),
            self.client.put(
                f"{at}/turns/1/mark", {"mark": "wrong", "comment": new("of a mark")}
            ),
            self.client.get(f"{at}/context"),
            wanted=OK,
        )

    def memory(self, thread: str) -> Iterator[str]:
        """Write working memory: overwritten, cleared, restored and expiring values."""
        new, value, name = (
            self.canaries.plant_text,
            self.canaries.plant_value,
            self.canaries.name,
        )
        at, send = f"/threads/{thread}", self.client.send
        key, point = name("key"), name("checkpoint")
        described = {"description": new("task"), "data": value("task")}
        change = {"op": "set", "key": name("key"), "value": value("batch")}
        yield from told(
            self.client.put(f"{at}/keys/{key}", {"value": value("key")}),
            self.client.put(
                f"{at}/keys/{name('key')}", {"value": new("expiring"), "ttl_seconds": 1}
            ),
            self.client.post(f"{at}/keys:batch", {"items": [change]}),
            self.client.put(f"{at}/task", {**described, "current_step": 3}),
            send("PATCH", f"{at}/task", {"description": new("patched task")}),
            self.client.post(f"{at}/notes", {"text": new("note", beyond_ascii=True)}),
            self.client.post(f"{at}/notes:batch", {"items": [{"text": new("notes")}]}),
            self.client.post(
                f"{at}/checkpoints", {"name": point, "description": new("point")}
            ),
            self.client.put(f"{at}/keys/{key}", {"value": new("second")}),
            self.client.post(f"{at}/keys:clear", {}),
            self.client.post(f"{at}/notes:clear", {}),
            self.client.post(f"{at}/checkpoints/{point}:restore", {}),
            send("DELETE", f"{at}/keys/{key}"),
            self.client.get(f"{at}/working-memory"),
            wanted=OK,
        )

    def known(self, thread: str) -> Iterator[str]:
        """Plant knowledge of the subject beyond the thread: a fact and a block."""
        new = self.canaries.plant_text
        fact = {part: new(part) for part in ("entity", "predicate", "value")}
        block = {"text": new("block"), "description": new("block's description")}
        yield from told(
            self.client.post(f"/threads/{thread}/facts", fact),
            self.client.put(f"/threads/{thread}/blocks/persona", block),
            wanted=OK,
        )

    def fork(self, thread: str) -> Iterator[str]:
        name, value = self.canaries.name("fork"), self.canaries.plant_value
        at = f"/threads/{name}"
        yield from told(
            self.client.post(f"/threads/{thread}:fork", {"thread": name}),
            self.client.append(name, value("fork")),
            self.client.put(f"{at}/keys/{self.canaries.name('key')}", {"value": 1}),
            self.client.post(f"{at}:close", {"reason": "failed"}),
            wanted=OK,
        )

    def send_refused(self, thread: str) -> Iterator[str]:
        """Send requests that are refused and must leave nothing behind."""
        new, at = self.canaries.plant_text, f"/threads/{thread}"
        yield from told(
            self.client.append(thread, new("stale"), If_Match='"1"'),
            self.client.post(f"{at}/slots", build_slot(1, role=new("a bad role"))),
            self.client.post(f"{at}/slots", {new("an unknown field"): 1}),
            self.client.put(
                f"{at}/pages/p", _build_page("text", {new("a bad field"): 1})
            ),
            self.client.put(f"{at}/keys/_no", {"value": new("reserved")}),
            self.client.post(f"{at}/notes", {"text": new("long") * 9_000}),
            self.client.get(f"/threads/{new('an unknown thread')}"),
            wanted={400, 404, 409, 412, 422},
        )


def _build_page(modality: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "artifact", "modality": modality, "content": content}

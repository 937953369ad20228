"""Writers who do not stop while their subject is forgotten, and whoever forgets her.

All of her, with agents kept out from the plan on; or a part, under their hands.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Condition, Event
from typing import Any

from tests.promises.clients import Answer, Client

#: Writes that each writer still tries once one was refused for good.
LATE = 10
DONE_SECONDS = 60.0


def await_complete(client: Client, erasures: Iterable[str]) -> None:
    """Ask for each until there is its receipt."""
    for erasure in erasures:
        deadline = time.monotonic() + DONE_SECONDS
        while (told := client.get(f"/erasures/{erasure}").body)["state"] != "complete":
            assert time.monotonic() < deadline, told
            # The server has better things to do than to answer this.
            time.sleep(0.1)


@dataclass(slots=True, kw_only=True)
class Race:
    """One subject who is forgotten under the hands of her writers, beside a twin."""

    port: int
    #: A key that writes, and one that forgets.
    keys: tuple[str, str]
    name: str
    writers: int
    #: Writes of hers that were acknowledged, and of the twin.
    written: int = 0
    twin: int = 0
    #: What was acknowledged after the erasure was.
    late: list[tuple[int, str]] = field(default_factory=list)
    _fenced: Event = field(default_factory=Event)
    _noted: Condition = field(default_factory=Condition)

    def run(self) -> str:
        """Id of the erasure, which is fenced by then and goes on."""
        with ThreadPoolExecutor(self.writers + 1) as pool:
            work = [pool.submit(self._write, n) for n in range(self.writers)]
            told = pool.submit(self._forget).result()
            for each in work:
                each.result()
        return told

    def _write(self, number: int) -> None:
        with Client(self.port, self.keys[0]) as client:
            n = 0
            while True:
                thread = f"{self.name}-{(number + n) % 4}"
                answer = client.put(f"/threads/{thread}", {"user_id": self.name})
                if answer.status in (200, 201):
                    content = f"canary-{self.name}-{number}-{n}"
                    answer = client.append(thread, content)
                twin = client.append(f"twin-of-{self.name}", f"{number}/{n}")
                self._note(answer.status, answer.body, twin=twin.status == 201)
                n += 1
                if self._fenced.is_set() and answer.status == 410:
                    break
            for n in range(LATE):
                fresh = f"{self.name}-late-{number}-{n}"
                answer = client.put(f"/threads/{fresh}", {"user_id": self.name})
                self._note(answer.status, answer.body)

    def _note(self, status: int, body: Any, *, twin: bool = False) -> None:
        with self._noted:
            self.twin += twin
            if status < 300:
                self.written += 1
                if self._fenced.is_set():
                    self.late.append((status, str(body)))
            self._noted.notify_all()

    def _forget(self) -> str:
        with self._noted:
            self._noted.wait_for(lambda: self.written >= 4 * self.writers, timeout=60)
        with Client(self.port, self.keys[1]) as client:
            # Agents are kept out from the plan on, so that none is let in that comes
            # after the erasure was acknowledged but is heard of before it.
            body = {"scope": "subject", "reason": "test", "restrict": True}
            plan = client.post(f"/subjects/{self._subject()}/erasures", body)
            assert plan.status == 201, plan.body
            return str(self._confirmed(client, plan.body)["id"])

    def _confirmed(self, client: Client, plan: Any) -> Any:
        """Again with the new plan while somebody who was let in before still writes."""
        while True:
            body = {"plan_token": plan["plan_token"], "count": plan["count"]}
            answer = client.post(f"/erasures/{plan['id']}:confirm", body)
            if answer.status == 202:
                self._fenced.set()
                return answer.body
            assert answer.body["code"] == "plan_stale", answer.body
            plan = answer.body["plan"]

    def _subject(self) -> str:
        with Client(self.port, self.keys[0]) as client:
            found = client.post("/subjects:resolve", {"user_id": self.name})
            return str(found.body["id"])


@dataclass(slots=True, kw_only=True)
class PartRace:
    """A thread, a record or what is old, forgotten while forks are made of it.

    Nobody is kept out. What goes says `canary`, what has to stay says `own`.
    """

    port: int
    #: A key that writes, and one that forgets.
    keys: tuple[str, str]
    name: str
    scope: str
    writers: int
    #: What was acknowledged before the fence, of what goes and of what stays.
    written: int = 0
    own: list[str] = field(default_factory=list)
    #: What was acknowledged though it was sent after the fence, and no refusal of ours.
    late: list[str] = field(default_factory=list)
    odd: list[tuple[int, Any]] = field(default_factory=list)
    _fenced: Event = field(default_factory=Event)
    #: Writers begin no turn while it is closed.
    _gate: Event = field(default_factory=Event)
    _under_way: int = 0
    _noted: Condition = field(default_factory=Condition)

    @property
    def thread(self) -> str:
        return f"{self.name}-0"

    def run(self) -> str:
        """Id of the erasure, which is fenced by then and goes on."""
        body = self._begun()
        self._gate.set()
        with ThreadPoolExecutor(self.writers + 1) as pool:
            work = [pool.submit(self._write, n) for n in range(self.writers)]
            told = pool.submit(self._forget, body)
            try:
                return told.result()
            finally:
                # Whatever was wrong with it, they come to their end.
                self._gate.set()
                self._fenced.set()
                for each in work:
                    each.result()

    def _begun(self) -> dict[str, Any]:
        """What there is before any writer comes; which of it is to be forgotten."""
        with Client(self.port, self.keys[0]) as client:
            client.put(f"/threads/{self.thread}", {"user_id": self.name})
            first = "One of hers." if self.scope == "record" else "canary of the first"
            assert client.append(self.thread, first).status == 201
            made = self._make(client, self.thread, "source", "canary of the source")
            assert made.status == 201, made.body
            seq = made.body["seq"]
        asked: dict[str, Any] = {"scope": self.scope, "reason": "test"}
        if self.scope == "before":
            return {**asked, "before": datetime.now(UTC).isoformat()}
        asked["thread"] = self.thread
        return {**asked, "record": seq} if self.scope == "record" else asked

    def _write(self, number: int) -> None:
        with Client(self.port, self.keys[0]) as client:
            n = 0
            for left in (LATE * 100, LATE // 3):
                for _ in range(left):
                    if left > LATE and self._fenced.is_set():
                        break
                    self._enter()
                    try:
                        self._turn(client, f"{number}-{n}")
                    finally:
                        self._leave()
                    n += 1

    def _turn(self, client: Client, mark: str) -> None:
        """A page of the source, a fork that inherits it, and pages of both there."""
        fork, made = f"{self.thread}-{mark}", f"made-{mark}"
        self._derive(client, self.thread, made, "source")
        self._say(client)
        fenced = self._fenced.is_set()
        answer = client.post(f"/threads/{self.thread}:fork", {"name": fork})
        if self.scope == "thread":
            self._noted_of(answer, fork, fenced=fenced)
        if answer.status != 201:
            return
        self._derive(client, fork, f"again-{mark}", "source", made)
        text = f"own {self.name} {mark}"
        if self._make(client, fork, f"own-{mark}", text).status == 201:
            with self._noted:
                self.own.append(text)

    def _say(self, client: Client) -> None:
        """A message, which goes with the thread alone."""
        if self.scope != "thread":
            client.append(self.thread, f"A message of {self.name}.")
            return
        fenced = self._fenced.is_set()
        answer = client.append(self.thread, "canary of the thread")
        self._noted_of(answer, self.thread, fenced=fenced)

    def _derive(self, client: Client, thread: str, page: str, *sources: str) -> None:
        fenced = self._fenced.is_set()
        text = f"canary {page} of {self.name}, which was made of another"
        answer = self._make(client, thread, page, text, *sources)
        self._noted_of(answer, page, fenced=fenced)

    def _make(
        self, client: Client, thread: str, page: str, text: str, *sources: str
    ) -> Answer:
        body = {"type": "artifact", "modality": "text", "content": {"text": text}}
        more = {"page_id": page, "provenance": [*sources]}
        return client.post(f"/threads/{thread}/pages", {**body, **more})

    def _noted_of(self, answer: Answer, what: str, *, fenced: bool) -> None:
        with self._noted:
            if answer.status == 201:
                self.written += 1
                if fenced:
                    self.late.append(what)
            elif answer.status not in (404, 409, 410, 422):
                self.odd.append((answer.status, answer.body))

    def _enter(self) -> None:
        while True:
            self._gate.wait()
            with self._noted:
                if self._gate.is_set():
                    self._under_way += 1
                    return

    def _leave(self) -> None:
        with self._noted:
            self._under_way -= 1
            self._noted.notify_all()

    def _forget(self, body: dict[str, Any]) -> str:
        with self._noted:
            enough = 2 * self.writers
            assert self._noted.wait_for(lambda: self.written >= enough, timeout=60)
        with Client(self.port, self.keys[0]) as client:
            found = client.post("/subjects:resolve", {"user_id": self.name}).body
        with Client(self.port, self.keys[1]) as client:
            plan = client.post(f"/subjects/{found['id']}/erasures", body)
            assert plan.status == 201, plan.body
            told = self._confirmed(client, plan.body)
            self._await_fence(client, told)
            return told

    def _confirmed(self, client: Client, plan: Any) -> str:
        """Once under their hands; if it is stale by then, while they hold still."""
        for _ in range(10):
            body = {"plan_token": plan["plan_token"], "count": plan["count"]}
            answer = client.post(f"/erasures/{plan['id']}:confirm", body)
            self._gate.set()
            if answer.status == 202:
                return str(answer.body["id"])
            assert answer.body["code"] == "plan_stale", answer.body
            plan = answer.body["plan"]
            self._gate.clear()
            with self._noted:
                still = self._noted.wait_for(lambda: not self._under_way, timeout=60)
            assert still, "a writer's turn has no end"
        raise AssertionError(plan)

    def _await_fence(self, client: Client, erasure: str) -> None:
        deadline = time.monotonic() + DONE_SECONDS
        while client.get(f"/erasures/{erasure}").body["state"] == "planned":
            assert time.monotonic() < deadline, erasure
            time.sleep(0.1)
        self._fenced.set()

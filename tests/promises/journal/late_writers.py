"""Writers who go on while their subject is forgotten, and the forgetting side.

The whole subject, with agents kept out from the plan on or not; or a part of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Condition, Event
from typing import Any

from tests.promises.journal.clients import Answer, Client

#: Writes that each writer still tries once one was refused for good.
LATE = 10
#: For the receipts, and a second more for each.
DONE_SECONDS = 60.0


def await_complete(client: Client, erasures: Collection[str]) -> None:
    """Poll each erasure until its receipt; so many erasures run together."""
    deadline = time.monotonic() + DONE_SECONDS + len(erasures)
    for erasure in erasures:
        while (told := client.get(f"/erasures/{erasure}").body)["state"] != "complete":
            assert time.monotonic() < deadline, told
            # The server has better things to do than to answer this.
            time.sleep(0.1)


@dataclass(slots=True)
class Gate:
    """Gate at which writers wait before a turn while it is closed."""

    _open: Event = field(default_factory=Event)
    _under_way: int = 0
    _changed: Condition = field(default_factory=Condition)

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        """Close the gate and return once nobody is in the middle of a turn."""
        self._open.clear()
        with self._changed:
            still = self._changed.wait_for(lambda: not self._under_way, timeout=60)
        assert still, "a writer's turn has no end"

    @contextmanager
    def enter_gate(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _enter(self) -> None:
        while True:
            self._open.wait()
            with self._changed:
                if self._open.is_set():
                    self._under_way += 1
                    return


def beside(
    write: Callable[[int], None],
    writers: int,
    forget: Callable[[], str],
    *,
    gate: Gate,
    fenced: Event,
) -> str:
    """Run `forget` beside `writers` writers; return its result once all have ended."""
    gate.open()
    with ThreadPoolExecutor(writers + 1) as pool:
        work = [pool.submit(write, n) for n in range(writers)]
        told = pool.submit(forget)
        try:
            return told.result()
        finally:
            # Whatever was wrong with it, they go on, and see that it is over.
            gate.open()
            fenced.set()
            for each in work:
                each.result()


@dataclass(slots=True, kw_only=True)
class Race:
    """Race between a subject's erasure and its writers, beside a second subject.

    Agents are kept out from the plan on, or else only by the fence itself.
    """

    #: Of the process that agents write to, and of the one that is asked to forget.
    ports: tuple[int, int]
    #: A key that writes, and one that forgets.
    keys: tuple[str, str]
    name: str
    writers: int
    restrict: bool
    #: Writes of hers that were acknowledged, and of the twin.
    written: int = 0
    twin: int = 0
    #: Writes acknowledged although sent after the erasure.
    late: list[tuple[int, str]] = field(default_factory=list)
    _fenced: Event = field(default_factory=Event)
    _gate: Gate = field(default_factory=Gate)
    _noted: Condition = field(default_factory=Condition)

    def run(self) -> str:
        """Race, and return the id of the erasure, which is fenced by then."""
        return beside(
            self._write,
            self.writers,
            self._forget,
            gate=self._gate,
            fenced=self._fenced,
        )

    def _write(self, number: int) -> None:
        with Client(self.ports[0], self.keys[0]) as client:
            n, last = 0, False
            while not last:
                # The last turn is all of it after the fence.
                last = self._fenced.is_set()
                with self._gate.enter_gate():
                    self._write_turn(client, number, n)
                n += 1
            for n in range(LATE):
                fresh = f"{self.name}-late-{number}-{n}"
                self._put(client, fresh)

    def _write_turn(self, client: Client, number: int, n: int) -> None:
        """Append to a thread of the erased subject and to one of the other's.

        One in four writers begins a new thread each time.
        """
        fresh = (number + n) % 4 == 3
        thread = f"{self.name}-{f'{number}-{n}' if fresh else n % 2}"
        put = self._put(client, thread)
        # A message to a thread that is not there would begin one of nobody's.
        if not fresh or put.status in (200, 201):
            fenced = self._fenced.is_set()
            said = client.append(thread, f"canary-{self.name}-{number}-{n}")
            self._note(said, fenced=fenced)
        twin = client.append(f"twin-of-{self.name}", f"{number}/{n}")
        with self._noted:
            self.twin += twin.status == 201

    def _put(self, client: Client, thread: str) -> Answer:
        fenced = self._fenced.is_set()
        answer = client.put(f"/threads/{thread}", {"user_id": self.name})
        self._note(answer, fenced=fenced)
        return answer

    def _note(self, answer: Answer, *, fenced: bool) -> None:
        with self._noted:
            if answer.status < 300:
                self.written += 1
                if fenced:
                    self.late.append((answer.status, str(answer.body)))
            self._noted.notify_all()

    def _forget(self) -> str:
        with self._noted:
            self._noted.wait_for(lambda: self.written >= 4 * self.writers, timeout=60)
        with Client(self.ports[1], self.keys[1]) as client:
            body = {"scope": "subject", "reason": "test", "restrict": self.restrict}
            plan = client.post(f"/subjects/{self._resolve_subject()}/erasures", body)
            assert plan.status == 201, plan.body
            told = str(self._confirmed(client, plan.body)["id"])
            self._fenced.set()
            return told

    def _confirmed(self, client: Client, plan: Any) -> Any:
        """Confirm while writers write, with a new plan while the old one is stale.

        Writers whom nothing keeps out hold still for each renewed plan and go on once
        that one is confirmed; otherwise no plan would ever hold.
        """
        for n in range(200):
            if n % 2 and not self.restrict:
                self._gate.close()
            else:
                self._gate.open()
            body = {"plan_token": plan["plan_token"], "count": plan["count"]}
            answer = client.post(f"/erasures/{plan['id']}:confirm", body)
            if answer.status == 202:
                return answer.body
            assert answer.body["code"] == "plan_stale", answer.body
            plan = answer.body["plan"]
        raise AssertionError(plan)

    def _resolve_subject(self) -> str:
        with Client(self.ports[0], self.keys[0]) as client:
            found = client.post("/subjects:resolve", {"user_id": self.name})
            return str(found.body["id"])


@dataclass(slots=True, kw_only=True)
class PartRace:
    """Race for a thread, a record or old records while forks are made of the thread.

    Nobody is kept out. Texts to erase say `canary`, texts that must stay say `own`.
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
    #: Writes acknowledged although sent after the fence, and refusals not ours.
    late: list[str] = field(default_factory=list)
    odd: list[tuple[int, Any]] = field(default_factory=list)
    _fenced: Event = field(default_factory=Event)
    _gate: Gate = field(default_factory=Gate)
    _noted: Condition = field(default_factory=Condition)

    @property
    def thread(self) -> str:
        return f"{self.name}-0"

    def run(self) -> str:
        """Race, and return the id of the erasure, which is fenced by then."""
        body = self._begin_request()
        return beside(
            self._write,
            self.writers,
            partial(self._forget, body),
            gate=self._gate,
            fenced=self._fenced,
        )

    def _begin_request(self) -> dict[str, Any]:
        """Write records from before the race; return the request to forget a part."""
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
                    with self._gate.enter_gate():
                        self._write_turn(client, f"{number}-{n}")
                    n += 1

    def _write_turn(self, client: Client, mark: str) -> None:
        """Write a page of the source, a fork that inherits it, and pages of both."""
        fork, made = f"{self.thread}-{mark}", f"made-{mark}"
        self._derive(client, self.thread, made, "source")
        self._say(client)
        fenced = self._fenced.is_set()
        answer = client.post(f"/threads/{self.thread}:fork", {"thread": fork})
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
        """Append a message, which is erased with the thread alone."""
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
        """Confirm once while writers write; if the plan is stale, while they pause."""
        for _ in range(10):
            body = {"plan_token": plan["plan_token"], "count": plan["count"]}
            answer = client.post(f"/erasures/{plan['id']}:confirm", body)
            self._gate.open()
            if answer.status == 202:
                return str(answer.body["id"])
            assert answer.body["code"] == "plan_stale", answer.body
            plan = answer.body["plan"]
            self._gate.close()
        raise AssertionError(plan)

    def _await_fence(self, client: Client, erasure: str) -> None:
        deadline = time.monotonic() + DONE_SECONDS
        while client.get(f"/erasures/{erasure}").body["state"] == "planned":
            assert time.monotonic() < deadline, erasure
            time.sleep(0.1)
        self._fenced.set()

"""A client of chat completions talks with memory in between, to the end.

The client is the `openai` package as it is; the model behind it answers from a script,
by what it is shown and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessage

from tests.harness.instances import Instance
from tests.modelserver import Model, call, serving
from tests.promises.clients import Client

pytestmark = pytest.mark.timeout(300)

#: 2,200 tokens may be mapped: what was said first is gone when it is asked for.
SMALL = {"budget_tokens": 3_000, "reserved_tokens": 800}
CODE = "4-17-22"
#: Long enough for the code to be in no hint, and in no lower level.
SECRET = (
    "About the locker at the station. "
    + "It is the one beside the stairs, a green one, and it sticks a little. " * 8
    + f"Its code is {CODE}."
)
TALK = "The parcel went by ship and by train, and nobody knows why it is late. " * 12
MANIFEST = re.compile(r"<VM:MANIFEST_JSON>\n(.*)\n</VM:MANIFEST_JSON>", re.DOTALL)


@dataclass(slots=True)
class Script:
    """A model that looks a page up by its hint, and then says what it has read."""

    calls: int = 0
    #: What it was told by the tool, as it came.
    told: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        messages = request["messages"]
        last = messages[-1]
        if last["role"] == "tool":
            return self.go_on(request, json.loads(last["content"]))
        if "I need" not in last["content"]:
            return {"content": "I have made a note of it. " + TALK}
        assert CODE not in json.dumps(messages)
        # As models do: first an id that it has made up.
        return self.ask(page_id="page-of-the-locker")

    def go_on(self, request: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
        self.told.append(told)
        if "error" in told:
            return self.ask(page_id=self.hinted(request), target_level=3)
        text = json.dumps(told["page"]["content"])
        if CODE in text:
            page_id = told["page"]["page_id"]
            return {"content": f"It is {CODE} [ref: {page_id}]."}
        assert told["effects"]["faults_left"] > 0
        return self.ask(page_id=told["page"]["page_id"], target_level=0)

    def ask(self, **arguments: Any) -> dict[str, Any]:
        self.calls += 1
        return call(self.calls, **arguments)

    def hinted(self, request: dict[str, Any]) -> str:
        """The page whose hint speaks of the locker."""
        found = MANIFEST.search(request["messages"][0]["content"])
        assert found is not None
        rows = json.loads(found[1])["available_pages"]
        return str(next(row["page_id"] for row in rows if "locker" in row["hint"]))


class Agent:
    """The loop that any agent has: a turn, the model, its tools, until it answers."""

    def __init__(self, memory: Client, model: Model, mode: str) -> None:
        self.memory, self.mode = memory, mode
        self.openai = OpenAI(base_url=model.base_url, api_key="none", max_retries=0)
        self.turns: list[dict[str, Any]] = []

    def say(self, text: str) -> str:
        """One message of the user's; the model's final answer to it."""
        said = [slot({"role": "user", "content": text})]
        while True:
            answer = self.think(said)
            said = [slot(answer.model_dump(exclude_none=True))]
            if not answer.tool_calls:
                self.memory.post("/threads/talk/slots", said[0])
                return answer.content or ""
            for asked in answer.tool_calls:
                sent = asked.model_dump()
                found = self.memory.post("/threads/talk/tool-calls", sent)
                assert found.status == 200
                said.append(slot(found.body))

    def think(self, said: list[dict[str, Any]]) -> ChatCompletionMessage:
        """Begin a turn with what was said, and give the model exactly its request."""
        begun = self.memory.post(
            "/threads/talk/turns", {"slots": said, "mode": self.mode}
        )
        assert begun.status == 201
        self.turns.append(begun.body)
        request = begun.body["request"]
        done = self.openai.chat.completions.create(model="scripted", **request)
        said_back: ChatCompletionMessage = done.choices[0].message
        return said_back


def slot(message: dict[str, Any]) -> dict[str, Any]:
    role = message["role"]
    return {"from": role, "to": "agent", "type": f"chat.{role}", "content": message}


@pytest.fixture
def memory(instance: Instance, key: str) -> Iterator[Client]:
    with instance.serve() as server:
        with Client(server.port, key) as client:
            client.put("/threads/talk", {"config": SMALL})
            yield client
        server.stop()


@pytest.mark.promise("fetched", load="a chat-completions client, {mode}")
@pytest.mark.parametrize("mode", ["strict", "relaxed"])
def test_a_page_is_faulted_in_and_answers_the_question(
    memory: Client, mode: str
) -> None:
    script = Script()
    with serving(script) as model:
        agent = Agent(memory, model, mode)
        agent.say(SECRET)
        for number in range(4):
            agent.say(f"Also note this, number {number}: {TALK}")
        answer = agent.say("What was it about the locker? I need its code.")
    assert CODE in answer
    errors = [told["error"] for told in script.told if "error" in told]
    assert errors == ["page_unknown"]
    served = [told for told in script.told if "page" in told]
    assert served[-1]["page"]["page_id"] == "slot-0"
    assert CODE in json.dumps(served[-1]["page"]["content"])
    # The model was given what the hub handed out and recorded, and nothing else.
    for request, turn in zip(model.requests, agent.turns, strict=True):
        assert request["messages"] == turn["request"]["messages"]
        assert request["tools"] == turn["request"]["tools"]
        kept = memory.get(f"/threads/talk/turns/{turn['turn']}/context").body
        assert kept["verified"]
        assert kept["request"] == turn["request"]
    rules = memory.get(f"/threads/talk/turns/{len(agent.turns)}").body["rules"]
    assert rules == f"{mode}/1"
    # The answer to the next question needs no fault: the page is back.
    shown = memory.get("/threads/talk/working-set").body
    assert "slot-0" in json.dumps(shown)


def test_a_loop_of_tools_does_not_renew_its_budget(memory: Client) -> None:
    """The model asks for one page after the other, and is told when it is enough."""
    asked = []

    def greedy(request: dict[str, Any]) -> dict[str, Any]:
        last = request["messages"][-1]
        told = json.loads(last["content"]) if last["role"] == "tool" else {}
        if last["role"] != "tool" and "everything" not in last["content"]:
            return {"content": "Noted. " + TALK}
        if told.get("error") == "fault_budget":
            return {"content": "I could not read more."}
        asked.append(last)
        return call(len(asked), page_id=f"slot-{2 * (len(asked) - 1)}", target_level=0)

    with serving(greedy) as model:
        agent = Agent(memory, model, "strict")
        for number in range(7):
            agent.say(f"Note {number}: {TALK}")
        assert agent.say("Tell me everything.") == "I could not read more."
    # Three faults an exchange by default, and one call more that was refused.
    assert len(asked) == 4

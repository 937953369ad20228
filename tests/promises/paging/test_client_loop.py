"""Client of chat completions that talks with memory in between, to the end.

The client is the unchanged `openai` package; the model behind it answers from a
script, by what it is shown and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessage

from tests.cast.modelserver import Model, call, serving
from tests.environment import ROOT
from tests.harness.instances import Instance
from tests.promises.conftest import Own
from tests.promises.journal.clients import Client

pytestmark = pytest.mark.timeout(300)

#: 2,200 tokens may be mapped: what was said first is gone when it is asked for.
#: What has left comes back only if it is asked for.
SMALL = {"budget_tokens": 3_400, "reserved_tokens": 1_200, "recall": "off"}
CODE = "4-17-22"
#: So long that the code is in no hint, and in no lower level.
SECRET = (
    "About the locker at the station. "
    + "It is the one beside the stairs, a green one, and it sticks a little. " * 32
    + f"Its code is {CODE}."
)
TALK = "The parcel went by ship and by train, and nobody knows why it is late. " * 12
#: Beginning of a text that memory hands out.
PAGE = re.compile(r"page (\S+) · ")


@dataclass(slots=True)
class Script:
    """Model that fetches a page by its hint, and then says what it has read."""

    calls: int = 0
    #: Tool answers as received.
    told: list[str] = field(default_factory=list)

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        messages = request["messages"]
        last = messages[-1]
        if last["role"] == "tool":
            return self.go_on(request, last["content"])
        if "I need" not in last["content"]:
            return {"content": "I have made a note of it. " + TALK}
        assert CODE not in json.dumps(messages)
        # Models often begin with an invented id.
        return self.ask(page_id="page-of-the-locker")

    def go_on(self, request: dict[str, Any], told: str) -> dict[str, Any]:
        self.told.append(told)
        if (page := PAGE.match(told)) is None:
            return self.ask(page_id=self.hinted(request), target_level=3)
        if CODE in told:
            return {"content": f"It is {CODE} [ref: {page[1]}]."}
        return self.ask(page_id=page[1], target_level=0)

    def ask(self, **arguments: Any) -> dict[str, Any]:
        self.calls += 1
        return call(self.calls, **arguments)

    def hinted(self, request: dict[str, Any]) -> str:
        """Return the id of the page whose hint speaks of the locker."""
        results = (m["content"] for m in request["messages"] if m["role"] == "tool")
        (found,) = (text for text in results if text.startswith('{"available_pages"'))
        rows = json.loads(found)["available_pages"]
        return str(next(row["page_id"] for row in rows if "locker" in row["hint"]))


class Agent:
    """Loop of any agent: a turn, the model, its tools, until it answers."""

    def __init__(self, memory: Client, model: Model, mode: str) -> None:
        self.memory, self.mode = memory, mode
        self.openai = OpenAI(base_url=model.base_url, api_key="none", max_retries=0)
        self.turns: list[dict[str, Any]] = []

    def say(self, text: str) -> str:
        """Say one message of the user's and return the model's final answer."""
        said = [build_slot({"role": "user", "content": text})]
        while True:
            answer = self.think(said)
            said = [build_slot(answer.model_dump(exclude_none=True))]
            if not answer.tool_calls:
                self.memory.post("/threads/talk/slots", said[0])
                return answer.content or ""
            for asked in answer.tool_calls:
                sent = asked.model_dump()
                found = self.memory.post("/threads/talk/tool-calls", sent)
                assert found.status == 200
                said.append(build_slot(found.body))

    def think(self, said: list[dict[str, Any]]) -> ChatCompletionMessage:
        """Begin a turn with these messages, and give the model exactly its request."""
        begun = self.memory.post(
            "/threads/talk/turns", {"items": said, "mode": self.mode}
        )
        assert begun.status == 201
        self.turns.append(begun.body)
        request = begun.body["request"]
        done = self.openai.chat.completions.create(model="scripted", **request)
        said_back: ChatCompletionMessage = done.choices[0].message
        return said_back


def build_slot(message: dict[str, Any]) -> dict[str, Any]:
    role = message["role"]
    return {"from": role, "to": "agent", "type": f"chat.{role}", "content": message}


@pytest.fixture
def memory(instance: Instance, key: str) -> Iterator[Client]:
    with instance.serve() as server:
        with Client(server.port, key) as client:
            config = {**SMALL, "recall": "off"}
            client.put("/threads/talk", {"config": config})
            yield client
        server.stop()


@pytest.mark.promise("fetched", load="a chat-completions client, {mode}")
@pytest.mark.parametrize("mode", ["strict", "relaxed"])
def test_page_is_faulted_in_and_answers_the_question(memory: Client, mode: str) -> None:
    script = Script()
    with serving(script) as model:
        agent = Agent(memory, model, mode)
        agent.say(SECRET)
        for number in range(4):
            agent.say(f"Also note this, number {number}: {TALK}")
        answer = agent.say("What was it about the locker? I need its code.")
    assert CODE in answer
    mistake, *served = script.told
    assert mistake.endswith(".")
    assert [told.partition(" · ")[0] for told in served] == ["page slot-0"] * 2
    assert [CODE in told for told in served] == [False, True]
    # What it read stands there once, though it was appended as well.
    assert json.dumps(model.requests[-1]["messages"]).count(CODE) == 1
    # The model was given what the hub handed out and recorded, and nothing else.
    for request, turn in zip(model.requests, agent.turns, strict=True):
        assert request["messages"] == turn["request"]["messages"]
        assert request["tools"] == turn["request"]["tools"]
        kept = memory.get(f"/threads/talk/turns/{turn['turn']}/context").body
        assert kept["verified"]
        assert kept["request"] == turn["request"]
    rules = memory.get(f"/threads/talk/turns/{len(agent.turns)}").body["rules"]
    assert rules == f"{mode}/3"
    # The answer to the next question needs no fault: the page is back.
    shown = memory.get("/threads/talk/working-set").body
    assert "slot-0" in json.dumps(shown)


def test_loop_of_tools_does_not_renew_its_budget(memory: Client) -> None:
    """The model asks for one page after the other until it is told to stop."""
    asked = []

    def greedy(request: dict[str, Any]) -> dict[str, Any]:
        last = request["messages"][-1]
        if last["role"] != "tool" and "everything" not in last["content"]:
            return {"content": "Noted. " + TALK}
        if last["role"] == "tool" and not PAGE.match(last["content"]):
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


# The loop that the README shows

EXAMPLE = ROOT / "examples" / "loop.py"


def test_readme_shows_the_loop_as_it_runs() -> None:
    code = EXAMPLE.read_text(encoding="utf-8")
    shown = code[code.index("def send(") : code.index("# So small")].rstrip()
    assert f"```python\n{shown}\n```" in (ROOT / "README.md").read_text("utf-8")
    assert len([line for line in shown.splitlines() if line]) <= 25


def said_by_the_loop(
    port: int, key: str, *words: str, example: str = EXAMPLE.name, **env: str
) -> list[str]:
    hub = {"MEMORYHUB_URL": f"http://127.0.0.1:{port}", "MEMORYHUB_KEY": key}
    done = subprocess.run(
        [sys.executable, EXAMPLE.with_name(example), *words],
        env={"PATH": os.environ["PATH"], **hub, **env},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.splitlines()


def test_client_loop_is_offered_evicted_pages(instance: Instance, key: str) -> None:
    with instance.serve() as server, Client(server.port, key) as client:
        assert said_by_the_loop(server.port, key)[-1] == "The code is 4-17-22."
        paging = client.get("/threads/loop/paging").body
        assert (paging["exchanges"], paging["total"]["faults"]) == (6, 0)
        assert paging["total"]["recall_brought"]["search"] > 0
        # And unchanged with any other model.
        with serving(lambda _: {"content": "So it is."}) as model:
            url = {"OPENAI_BASE_URL": model.base_url, "MODEL": "another"}
            told = said_by_the_loop(server.port, key, "It rains.", **url)
        assert told == ["> It rains.", "So it is."]
        assert model.requests[0]["model"] == "another"
        server.stop()


#: By API: how many thoughts stand while an exchange runs, and what failed.
SDKS = {
    "chat": (0, '"content": "Failed: The weather'),
    "responses": (1, '"output": "Failed: The weather'),
    "anthropic": (1, '"is_error": true'),
}


@pytest.mark.parametrize("api", SDKS)
def test_loop_with_an_sdk_sends_what_its_api_takes(own: Own, api: str) -> None:
    """The model refuses all other formats, and says what each request shows."""
    example = f"loop_{api}.py"
    lines = said_by_the_loop(
        own.server.port, own.key, example=example, PYTHONPATH=str(ROOT)
    )
    assert lines[-1] == "It was platform 4."
    counts = [line for line in lines if line.startswith("  (")]
    asked, answered, later, *_, recalled = (re.findall(r"\d+", each) for each in counts)
    thoughts, failed = SDKS[api]
    # Pictures, thoughts, calls and results; of these one is memory's own list.
    assert asked == ["1", "0", "1", "1"]
    assert answered == ["1", str(thoughts), "3", "3"]
    assert later == ["1", "0", "3", "3"]
    # What has left came along unasked, beside memory's list.
    assert recalled == ["0", "0", "2", "2"]
    with own.client() as client:
        context = client.get(f"/threads/{api}/turns/2/context").body
    assert failed in json.dumps(context["request"])

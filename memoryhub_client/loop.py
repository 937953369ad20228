"""Loop: what is said goes into a thread, the model answers it, and its calls are done.

    loop = Loop(hub, "talk", model, tools={"track": track})
    answer = loop.run({"role": "user", "content": "Where is my parcel?"})

The agent's own tools are those in `tools`, called with the model's arguments by name;
all other calls are the hub's, which tells the model when there is no such tool.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, cast

from memoryhub_client import slots, turns
from memoryhub_client import tools as tool_calls
from memoryhub_client.answers import Message, ModelRequest, ToolCall, Turn
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.client import Client
from memoryhub_client.requests import Request

Tools = Mapping[str, Callable[..., Any]]


class Loop:
    """An agent on one thread; `model` answers a request with its message."""

    def __init__(
        self,
        hub: Client,
        thread: str,
        model: Callable[[ModelRequest], Message],
        tools: Tools | None = None,
    ) -> None:
        self.hub, self.thread, self.model = hub, thread, model
        self.tools = tools or {}

    def run(self, *messages: Message) -> Message:
        """The model's final answer, which is in the thread. Raises Problem."""
        steps = _steps(self.thread, messages, self.tools)
        done: Any = None
        while True:
            try:
                step = steps.send(done)
            except StopIteration as end:
                return cast("Message", end.value)
            match step:
                case Request():
                    done = self.hub.send(step)
                case _Asking():
                    done = self.model(step.request)
                case _Using():
                    done = step.use()


class AsyncLoop:
    """As `Loop`, awaited; the agent's own tools may be awaited, too."""

    def __init__(
        self,
        hub: AsyncClient,
        thread: str,
        model: Callable[[ModelRequest], Awaitable[Message]],
        tools: Tools | None = None,
    ) -> None:
        self.hub, self.thread, self.model = hub, thread, model
        self.tools = tools or {}

    async def run(self, *messages: Message) -> Message:
        """The model's final answer, which is in the thread. Raises Problem."""
        steps = _steps(self.thread, messages, self.tools)
        done: Any = None
        while True:
            try:
                step = steps.send(done)
            except StopIteration as end:
                return cast("Message", end.value)
            match step:
                case Request():
                    done = await self.hub.send(step)
                case _Asking():
                    done = await self.model(step.request)
                case _Using():
                    done = step.use()
                    if isawaitable(done):
                        done = await done


@dataclass(frozen=True)
class _Asking:
    """The model's turn."""

    request: ModelRequest


@dataclass(frozen=True)
class _Using:
    """A call of the agent's own tool."""

    tool: Callable[..., Any]
    arguments: dict[str, Any]

    def use(self) -> Any:
        return self.tool(**self.arguments)


def _steps(
    thread: str, said: tuple[Message, ...], tools: Tools
) -> Generator[Request | _Asking | _Using, Any, Message]:
    """What is to be done, one by one; what came of each is sent in."""
    messages = list(said)
    while True:
        items = [slots.chat(each) for each in messages]
        turn: Turn = yield turns.begin(thread, items=items)
        answer: Message = yield _Asking(turn["request"])
        calls = answer.get("tool_calls") or []
        if not calls:
            yield slots.append(thread, slots.chat(answer))
            return answer
        messages = [answer]
        for call in calls:
            messages.append((yield from _done(thread, call, tools)))


def _done(
    thread: str, call: ToolCall, tools: Tools
) -> Generator[Request | _Using, Any, Message]:
    """The message that answers a call."""
    function = call["function"]
    tool = tools.get(function["name"])
    if tool is None:
        answer: Message = yield tool_calls.call_tool(thread, call)
        return answer
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        # For the model to mend: no tool can be called with that.
        return _result(call, "The arguments are no JSON object.")
    return _result(call, (yield _Using(tool, arguments)))


def _result(call: ToolCall, value: Any) -> Message:
    text = value if isinstance(value, str) else json.dumps(value)
    return {"role": "tool", "tool_call_id": call["id"], "content": text}

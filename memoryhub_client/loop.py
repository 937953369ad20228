"""Loop: append messages to a thread, have the model answer, and execute its calls.

    loop = Loop(hub, "talk", model, tools={"track": track})
    answer = loop.run({"role": "user", "content": "Where is my parcel?"})

The agent's own tools are in `tools`, called with the model's arguments by name. The hub
answers all other calls, and tells the model when a tool does not exist. If a tool
raises, the model is told of the failure. A result above the hub's limit keeps its
beginning and its end. If the thread has a `guard`, calls of own tools are checked
before they run, and recorded: see `guarding`. The thread and the model must have the
same format: a message's `content` is the output of a response, or Anthropic's blocks.
For Gemini the message is the `content` of the answer's candidate, not the whole answer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any, cast

from memoryhub_client import guarding, slots, turns
from memoryhub_client import tools as tool_calls
from memoryhub_client.answers import Call, ModelMessage, ModelRequest, TurnAnswer
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.client import Client
from memoryhub_client.guarding import OwnCall
from memoryhub_client.problems import Problem, TooLarge
from memoryhub_client.requests import Request

Tools = Mapping[str, Callable[..., Any]]
#: Types of calls among Responses' items and Anthropic's blocks. Chat completions has
#: a separate member for calls, and a part of Gemini's has no type.
_CALL_TYPES = {"function_call", "custom_tool_call", "tool_use"}
#: Names of a call's arguments, by API.
_ARGUMENTS = ("arguments", "args", "input")
#: Characters kept of a result above the limit; halved until the hub takes the result.
_MOST_KEPT = 500_000


class Loop:
    """An agent on one thread; `model` answers a request with its message."""

    def __init__(
        self,
        hub: Client,
        thread: str,
        model: Callable[[ModelRequest], ModelMessage],
        tools: Tools | None = None,
    ) -> None:
        self.hub, self.thread, self.model = hub, thread, model
        self.tools = tools or {}

    def run(self, *messages: ModelMessage) -> ModelMessage:
        """Return the model's final answer, which is in the thread. Raises Problem."""
        steps = _iter_steps(self.thread, messages, self.tools)
        resume: Callable[[Any], _Step] = steps.send
        done: Any = None
        while True:
            try:
                step = resume(done)
            except StopIteration as end:
                return cast("ModelMessage", end.value)
            try:
                done, resume = self._do_step(step), steps.send
            except Exception as failure:  # noqa: BLE001  # it is thrown where it arose
                done, resume = failure, steps.throw

    def _do_step(self, step: _Step) -> Any:
        match step:
            case _ModelStep():
                return self.model(step.request)
            case _ToolStep():
                return step.tool(**step.arguments)
            case Request():
                return self.hub.send(step)


class AsyncLoop:
    """An asynchronous `Loop`; the agent's own tools may be coroutine functions."""

    def __init__(
        self,
        hub: AsyncClient,
        thread: str,
        model: Callable[[ModelRequest], Awaitable[ModelMessage]],
        tools: Tools | None = None,
    ) -> None:
        self.hub, self.thread, self.model = hub, thread, model
        self.tools = tools or {}

    async def run(self, *messages: ModelMessage) -> ModelMessage:
        """Return the model's final answer, which is in the thread. Raises Problem."""
        steps = _iter_steps(self.thread, messages, self.tools)
        resume: Callable[[Any], _Step] = steps.send
        done: Any = None
        while True:
            try:
                step = resume(done)
            except StopIteration as end:
                return cast("ModelMessage", end.value)
            try:
                done, resume = await self._do_step(step), steps.send
            except Exception as failure:  # noqa: BLE001  # it is thrown where it arose
                done, resume = failure, steps.throw

    async def _do_step(self, step: _Step) -> Any:
        match step:
            case _ModelStep():
                return await self.model(step.request)
            case _ToolStep():
                done = step.tool(**step.arguments)
                return await done if isawaitable(done) else done
            case Request():
                return await self.hub.send(step)


@dataclass(frozen=True)
class _ModelStep:
    """A request to the model."""

    request: ModelRequest


@dataclass(frozen=True)
class _ToolStep:
    """A call of the agent's own tool."""

    tool: Callable[..., Any]
    arguments: dict[str, Any]


_Step = Request[Any] | _ModelStep | _ToolStep


def _iter_steps(
    thread: str, said: tuple[ModelMessage, ...], tools: Tools
) -> Generator[_Step, Any, ModelMessage]:
    """Yield the steps in turn; the caller sends in each result, or throws a failure."""
    messages = list(said)
    guarded: bool | None = None
    while True:
        turn = yield from _begin_turn(thread, messages)
        answer: ModelMessage = yield _ModelStep(turn["request"])
        calls = _find_calls(answer)
        if not calls:
            yield slots.append(thread, slots.chat(answer))
            return answer
        messages = [answer]
        for call in calls:
            name, given = _read_call(call)
            tool = tools.get(name)
            if tool is None:
                result = yield from _ask_hub(thread, call)
            else:
                if guarded is None:
                    guarded = yield from guarding.is_guarded(thread)
                own = OwnCall(thread, name, given, partial(_ToolStep, tool))
                result = yield from _run_own(call, own, guarded=guarded)
            if result["role"] == messages[-1]["role"] == "user":
                # Anthropic and Gemini require all results in one message.
                _get_parts(messages[-1]).extend(_get_parts(result))
            else:
                messages.append(result)


def _begin_turn(
    thread: str, messages: Sequence[ModelMessage]
) -> Generator[_Step, Any, TurnAnswer]:
    """Begin a turn with these messages. Raises Problem."""
    items = [slots.chat(each) for each in messages]
    try:
        turn: TurnAnswer = yield turns.begin(thread, items=items)
    except TooLarge:
        for each in messages:
            yield from _append_message(thread, each)
        turn = yield turns.begin(thread)
    return turn


def _append_message(thread: str, message: ModelMessage) -> Generator[_Step, Any, None]:
    """Append a message; cut results that are too long for the hub."""
    most = _MOST_KEPT
    while True:
        try:
            yield slots.append(thread, slots.chat(message))
        except TooLarge:
            if not _cut_results(message, most):
                raise
            most //= 2
        else:
            return


def _cut_results(message: Any, most: int) -> bool:
    """Cut each result of a message to `most` characters; return whether any was cut."""
    held = _get_parts(message)
    found = False
    for each in held if isinstance(held, list) else [message]:
        part = each.get("functionResponse", {}).get("response", each)
        of_tool = part.get("role") == "tool" or "tool_use_id" in part
        places = ("output", "error", *(("content",) if of_tool else ()))
        place = next((name for name in places if name in part), "")
        text = part.get(place)
        if isinstance(text, str) and len(text) > most:
            left = f"[{len(text) - most} characters left out: too long to store]"
            part[place] = f"{text[: most // 2]}\n{left}\n{text[-(most // 2) :]}"
            found = True
    return found


def _get_parts(message: ModelMessage) -> Any:
    """Return a message's content, or the parts of Gemini's content."""
    return message["parts"] if "parts" in message else message.get("content")


def _find_calls(answer: ModelMessage) -> Sequence[Call]:
    """Return a message's calls: beside its content, or items, blocks, parts in it."""
    if calls := answer.get("tool_calls"):
        return calls
    held = _get_parts(answer)
    return [
        each
        for each in (held if isinstance(held, list) else [])
        if each.get("type") in _CALL_TYPES or "functionCall" in each
    ]


def _read_call(call: Mapping[str, Any]) -> tuple[str, Any]:
    """Return a call's name, and its arguments as the model wrote them."""
    function = call.get("function") or call.get("functionCall") or call
    places = (name for name in _ARGUMENTS if name in function)
    given = function.get(next(places, ""))
    return function.get("name", ""), {} if given in (None, "") else given


def _ask_hub(thread: str, call: Mapping[str, Any]) -> Generator[_Step, Any, Any]:
    """Return the hub's message that answers a call, also of no tool of ours."""
    try:
        told: Any = yield tool_calls.call_tool(thread, call)
    except Problem as refusal:
        return _build_result(call, str(refusal), failed=True)
    return told if "role" in told else {"role": "tool", "content": [told]}


def _run_own(
    call: Mapping[str, Any], own: OwnCall, *, guarded: bool
) -> Generator[_Step, Any, ModelMessage]:
    """Return the message that answers a call, also when its tool fails."""
    try:
        arguments = _parse_arguments(own.given)
        if guarded:
            text = yield from guarding.run_guarded(own)
        else:
            text = guarding.render_result((yield own.step(arguments)))
    except Exception as failure:  # noqa: BLE001  # it is told to the model
        text = str(failure) or type(failure).__name__
        return _build_result(call, text, failed=True)
    return _build_result(call, text)


def _parse_arguments(given: Any) -> dict[str, Any]:
    """Return the arguments of a call, an object or its JSON. Raises ValueError."""
    with suppress(ValueError):
        found = json.loads(given) if isinstance(given, str) else given
        if isinstance(found, dict):
            return found
    raise ValueError("The arguments are no JSON object.")


def _build_result(
    call: Mapping[str, Any], text: str, *, failed: bool = False
) -> ModelMessage:
    """Build a result as a message of the API of the call."""
    text = guarding.clean_text(text)
    kind, called = call.get("type"), call.get("functionCall")
    if called:
        named = {name: called[name] for name in ("id", "name") if name in called}
        response = {**named, "response": {"error" if failed else "output": text}}
        return {"role": "user", "parts": [{"functionResponse": response}]}
    # OpenAI's APIs have no such field: the hub keeps it, and requests say `[failed]`.
    error = {"is_error": True} if failed else {}
    if kind == "tool_use":
        block = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
        return {"role": "user", "content": [{**block, **error}]}
    if kind in _CALL_TYPES:
        item = {"type": f"{kind}_output", "call_id": call["call_id"], "output": text}
        return {"role": "tool", "content": [{**item, **error}]}
    told: Any = {"role": "tool", "tool_call_id": call["id"], "content": text, **error}
    message: ModelMessage = told
    return message

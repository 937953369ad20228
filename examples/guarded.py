"""An agent whose guard blocks an invented number, after which the model recovers.

    pip install ./memoryhub_client
    MEMORYHUB_KEY=mh_live_… python examples/guarded.py

The model is a scripted one, which first pays a sum that nobody gave it.
"""

# ruff: noqa: T201
import json
from typing import Any

import station

from memoryhub_client import Loop, threads, tools

#: What the model calls, one call an answer.
SCRIPT: list[tuple[str, dict[str, Any]]] = [
    ("pay", {"sum": 450}),
    ("fare", {"seats": 2}),
    ("pay", {"sum": "$v1"}),
]


def fare(seats: int) -> float:
    return 159.25 * seats


def pay(sum: float) -> str:  # noqa: A002  # the model's word for it
    return f"Paid {sum}."


def answer(request: Any) -> Any:
    """Answer with the next call of the script, then with the results."""
    told = [each for each in request["messages"] if each["role"] == "tool"]
    # The hub's own calls, such as page_list, have other ids.
    results = [each for each in told if each["tool_call_id"].startswith("call_")]
    if len(results) == len(SCRIPT):
        lines = [each["content"].splitlines()[0] for each in results]
        return {"role": "assistant", "content": "\n".join(lines)}
    name, arguments = SCRIPT[len(results)]
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{len(results)}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


with station.connect() as hub:
    # Off unless a thread wants it: `default` warns of such numbers, `strict` blocks.
    hub.send(threads.put("guarded", config={"guard": "strict"}))
    hub.send(tools.set_own("guarded", [{"name": "fare"}, {"name": "pay"}]))
    loop = Loop(hub, "guarded", answer, {"fare": fare, "pay": pay})
    print(loop.run({"role": "user", "content": "Buy 2 seats, please."})["content"])
    print([each["value"] for each in hub.send(tools.list_bindings("guarded"))["items"]])

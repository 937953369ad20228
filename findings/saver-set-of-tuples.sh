#!/bin/sh
# Library: langgraph-checkpoint 4.3.2 (with ormsgpack 1.13.1 and langgraph 1.2.24)
# Behaviour: what becomes of a tuple in a channel depends on where it stands. As a key of a dict it stays a tuple, as a
#   value it is a list, and a set of tuples (edges, pairs of ids) is no set any more: its members come back as lists, which
#   can't be hashed, so the set is given up for a list of lists, with a line in the log and no error. A graph that joins
#   such sets with `|` runs well once, and the next run of the thread fails. It happens with InMemorySaver too.
# Seen: {(1, 2): 'x'} -> {(1, 2): 'x'} / {'v': (1, 2)} -> {'v': [1, 2]} / {1, 2} -> {1, 2} / {(1, 2)} -> [[1, 2]]
#       graph, first run: {(1, 2), (3, 4)}; next run: TypeError: unsupported operand type(s) for |: 'list' and 'set'
# Source: package langgraph-checkpoint, module langgraph.checkpoint.serde.jsonplus (_msgpack_default, and
#   _reconstruction_fallback for the set)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q langgraph-checkpoint==4.3.2 ormsgpack==1.13.1 langgraph==1.2.24 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import operator, sys
from typing import Annotated, TypedDict
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

saver, got = InMemorySaver(), []
for n, value in enumerate([{(1, 2): "x"}, {"v": (1, 2)}, {1, 2}, {(1, 2)}]):
    point = empty_checkpoint()
    point["channel_values"], point["channel_versions"] = {"c": value}, {"c": "1"}
    config = {"configurable": {"thread_id": str(n), "checkpoint_ns": ""}}
    saver.put(config, point, {}, {"c": "1"})
    back = saver.get_tuple(config).checkpoint["channel_values"]["c"]
    print(value, "->", back, flush=True)
    got.append(back)

class State(TypedDict):
    edges: Annotated[set, operator.or_]

graph = StateGraph(State)
graph.add_node("step", lambda state: {"edges": {(3, 4)}})
graph.add_edge(START, "step")
app = graph.compile(checkpointer=saver)
for _ in range(2):
    try:
        got.append(app.invoke({"edges": {(1, 2)}}, {"configurable": {"thread_id": "graph"}})["edges"])
        print("graph ->", got[-1], flush=True)
    except TypeError as e:
        got.append("TypeError")
        print("graph -> TypeError:", e)
if got != [{(1, 2): "x"}, {"v": [1, 2]}, {1, 2}, [[1, 2]], {(1, 2), (3, 4)}, "TypeError"]:
    sys.exit(f"changed: {got}")
P

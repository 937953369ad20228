#!/bin/sh
# Library: langgraph-checkpoint 4.3.2 (with ormsgpack 1.13.1)
# Behaviour: what becomes of a tuple in a channel depends on where it stands. As a key of a dict it stays a tuple, as a
#   value it is a list, and a set of tuples (edges, pairs of ids) is no set any more: its members come back as lists, which
#   can't be hashed, so the set is given up for a list of lists, with a line in the log and no error. A reducer that calls
#   `|` or `.add` on the channel then fails in a resumed run only. It happens with InMemorySaver too.
# Seen: {(1, 2): 'x'} -> {(1, 2): 'x'} / {'v': (1, 2)} -> {'v': [1, 2]} / {1, 2} -> {1, 2} / {(1, 2)} -> [[1, 2]]
# Source: package langgraph-checkpoint, module langgraph.checkpoint.serde.jsonplus (_msgpack_default, and
#   _reconstruction_fallback for the set)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q langgraph-checkpoint==4.3.2 ormsgpack==1.13.1 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import sys
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

saver, got = InMemorySaver(), []
for n, value in enumerate([{(1, 2): "x"}, {"v": (1, 2)}, {1, 2}, {(1, 2)}]):
    point = empty_checkpoint()
    point["channel_values"], point["channel_versions"] = {"c": value}, {"c": "1"}
    config = {"configurable": {"thread_id": str(n), "checkpoint_ns": ""}}
    saver.put(config, point, {}, {"c": "1"})
    back = saver.get_tuple(config).checkpoint["channel_values"]["c"]
    print(value, "->", back, flush=True)
    got.append(back)
if got != [{(1, 2): "x"}, {"v": [1, 2]}, {1, 2}, [[1, 2]]]:
    sys.exit(f"changed: {got}")
P

#!/bin/sh
# Library: langgraph-checkpoint-sqlite 3.1.2 (with langgraph-checkpoint 4.3.2)
# Behaviour: for lists and objects `$eq` isn't the equality of a plain filter. `{"tags": ["a"]}` finds the item, `$eq` with
#   the same list never does, and `$ne` finds it (the operand is bound as bytes, which SQLite never holds equal to text).
#   An empty object as the wanted value is read as "no operators" and finds all, items without the field too.
# Seen, wanted value: plain | $eq | $ne | {}
#       SqliteStore: list | nothing | list object text | list none object text
#       InMemoryStore: list | list | none object text | object
# Source: package langgraph-checkpoint-sqlite, module langgraph.store.sqlite.base (_prepare_batch_search_queries,
#   SqliteStore._get_filter_condition); package langgraph-checkpoint, module langgraph.store.memory (_compare_values)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q langgraph-checkpoint-sqlite==3.1.2 langgraph-checkpoint==4.3.2 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import sys
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

got = []
with SqliteStore.from_conn_string(":memory:") as store:
    store.setup()
    for s in (store, InMemoryStore()):
        s.put(("n",), "list", {"tags": ["a"]})
        s.put(("n",), "object", {"tags": {"a": 1}})
        s.put(("n",), "text", {"tags": "a"})
        s.put(("n",), "none", {"other": 1})
        for want in (["a"], {"$eq": ["a"]}, {"$ne": ["a"]}, {}):
            got.append(" ".join(sorted(i.key for i in s.search(("n",), filter={"tags": want}))))
            print(type(s).__name__, want, "->", got[-1] or "nothing")
if got != ["list", "", "list object text", "list none object text", "list", "list", "none object text", "object"]:
    sys.exit(f"changed: {got}")
P

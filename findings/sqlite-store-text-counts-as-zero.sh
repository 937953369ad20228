#!/bin/sh
# Library: langgraph-checkpoint-sqlite 3.1.2 (with langgraph-checkpoint 4.3.2)
# Behaviour: a range filter with a number makes a number of whatever the item holds. Text without leading digits, objects
#   and lists count as 0, text with leading digits as those digits: "under 5" finds an unknown age, and "over 40" a guess in
#   words. Null and a missing field are left out. InMemoryStore raises ValueError for the same items.
# Seen: SqliteStore age < 5: baby object unknown; age > 40: guess old
#       InMemoryStore age < 5: ValueError
# Source: package langgraph-checkpoint-sqlite, module langgraph.store.sqlite.base (SqliteStore._get_filter_condition);
#   package langgraph-checkpoint, module langgraph.store.memory (_apply_operator)
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

ages = {"baby": 1, "old": 77, "unknown": "not told", "guess": "41 or 42", "object": {"years": 50}, "null": None}

def ask(store, test):
    try:
        return sorted(i.key for i in store.search(("people",), filter={"age": test}))
    except ValueError as e:
        return type(e).__name__

got = []
with SqliteStore.from_conn_string(":memory:") as store:
    store.setup()
    for s in (store, InMemoryStore()):
        for key, age in ages.items():
            s.put(("people",), key, {"age": age})
        s.put(("people",), "missing", {"name": "x"})
        for test in ({"$lt": 5}, {"$gt": 40}):
            got.append(ask(s, test))
            print(type(s).__name__, test, got[-1])
if got != [["baby", "object", "unknown"], ["guess", "old"], "ValueError", "ValueError"]:
    sys.exit(f"changed: {got}")
P

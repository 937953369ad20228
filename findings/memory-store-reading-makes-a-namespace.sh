#!/bin/sh
# Library: langgraph-checkpoint 4.3.2 (against langgraph-checkpoint-sqlite 3.1.2)
# Behaviour: reading writes. A `get` for an item that isn't there leaves its namespace in `list_namespaces` of InMemoryStore
#   for good, and so does deleting what was never put, or the last item of a namespace. An agent that looks for memories of
#   a user lists that user afterwards, and takes up a place of a page of the listing. `search` leaves nothing behind, and
#   SqliteStore lists only namespaces that hold items.
# Seen: InMemoryStore: get [('asked',)], search [], delete of nothing [('never',)], put then delete [('emptied',)]
#       SqliteStore: [] four times
# Source: package langgraph-checkpoint, module langgraph.store.memory (InMemoryStore._prepare_ops, _apply_put_ops,
#   _handle_list_namespaces)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q langgraph-checkpoint-sqlite==3.1.2 langgraph-checkpoint==4.3.2 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import contextlib, sys
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

@contextlib.contextmanager
def sqlite():
    with SqliteStore.from_conn_string(":memory:") as s:
        s.setup()
        yield s

def emptied(s):
    s.put(("emptied",), "k", {"v": 1})
    s.delete(("emptied",), "k")

deeds = {"get": lambda s: s.get(("asked",), "k"), "search": lambda s: s.search(("searched",)),
         "delete of nothing": lambda s: s.delete(("never",), "k"), "put then delete": emptied}
got = []
for make in (lambda: contextlib.nullcontext(InMemoryStore()), sqlite):
    for name, deed in deeds.items():
        with make() as s:
            deed(s)
            got.append(s.list_namespaces())
            print(type(s).__name__, name, got[-1])
if got != [[("asked",)], [], [("never",)], [("emptied",)], [], [], [], []]:
    sys.exit(f"changed: {got}")
P

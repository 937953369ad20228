#!/bin/sh
# Library: langgraph-checkpoint-conformance 0.0.2 (with langgraph-checkpoint 4.3.2)
# Behaviour: level FULL says nothing about what was left out. The level looks at detected capabilities alone, and only an
#   overridden async method is detected. So InMemorySaver is FULL with three of eight capabilities untried; a run asked for
#   "prune" alone is FULL with no test run; and a saver without any sync method (all raise NotImplementedError), whose sync
#   prune would fail, is FULL too, because the suite never calls a sync method. A gate has to ask for `detected` by name.
# Seen: InMemorySaver FULL True, 58 tests, untried: copy_thread delete_for_runs prune
#       only prune asked: FULL True, 0 tests
#       AsyncOnly FULL True, 58 tests, untried: copy_thread delete_for_runs prune; sync get_tuple: NotImplementedError
# Source: package langgraph-checkpoint-conformance, modules langgraph.checkpoint.conformance.report
#   (CapabilityReport.passed_all, conformance_level) and .capabilities (DetectedCapabilities.from_instance)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q langgraph-checkpoint-conformance==0.0.2 langgraph-checkpoint==4.3.2 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import asyncio, sys
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver

class AsyncOnly(BaseCheckpointSaver):
    def __init__(self):
        super().__init__()
        self.inner = InMemorySaver()
    def get_next_version(self, *a): return self.inner.get_next_version(*a)
    async def aput(self, *a): return await self.inner.aput(*a)
    async def aput_writes(self, *a, **k): return await self.inner.aput_writes(*a, **k)
    async def aget_tuple(self, config): return await self.inner.aget_tuple(config)
    async def adelete_thread(self, thread): return await self.inner.adelete_thread(thread)
    async def alist(self, *a, **k):
        async for t in self.inner.alist(*a, **k):
            yield t
    def prune(self, *a, **k): raise RuntimeError("broken, and never called")

def run(kind, **more):
    @checkpointer_test(name=kind.__name__)
    async def saver():
        yield kind()
    r = asyncio.run(validate(saver, **more))
    out = (r.conformance_level(), r.passed_all(), sum(c.tests_passed for c in r.results.values()),
           sorted(n for n, c in r.results.items() if not c.detected))
    print(kind.__name__, more, *out)
    return out

rest = ["copy_thread", "delete_for_runs", "prune"]
got = [run(InMemorySaver), run(InMemorySaver, capabilities={"prune"})[:3], run(AsyncOnly)]
try:
    AsyncOnly().get_tuple({"configurable": {"thread_id": "t"}})
    got.append("answered")
except NotImplementedError:
    got.append("NotImplementedError")
print("sync get_tuple of AsyncOnly:", got[-1])
if got != [("FULL", True, 58, rest), ("FULL", True, 0), ("FULL", True, 58, rest), "NotImplementedError"]:
    sys.exit(f"changed: {got}")
P

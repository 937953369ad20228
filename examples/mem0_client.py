"""mem0's own client, whose memories are kept by the hub instead of by mem0's service.

pip install mem0ai==2.2.1
MEMORYHUB_KEY=mh_live_… python examples/mem0_client.py
"""

# ruff: noqa: T201
import os

# Without this the client reports its use to mem0.
os.environ.setdefault("MEM0_TELEMETRY", "false")

from mem0 import MemoryClient

HUB = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")

client = MemoryClient(api_key=os.environ["MEMORYHUB_KEY"], host=f"{HUB}/compat/mem0")

said = [
    {"role": "user", "content": "I like a seat by the window."},
    {"role": "assistant", "content": "Noted."},
]
client.add(said, user_id="ann", metadata={"topic": "travel"})
for found in client.search("Which seat?", filters={"user_id": "ann"})["results"]:
    print(found["score"], found["memory"], found["metadata"])

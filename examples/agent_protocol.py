"""LangGraph's own SDK, whose threads and store are kept by the hub.

pip install langgraph-sdk==0.4.14
MEMORYHUB_KEY=mh_live_… python examples/agent_protocol.py
"""

# ruff: noqa: T201
import os

from langgraph_sdk import get_sync_client

HUB = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")

client = get_sync_client(
    url=f"{HUB}/compat/agent-protocol", api_key=os.environ["MEMORYHUB_KEY"]
)

thread = client.threads.create(metadata={"topic": "travel"})
client.store.put_item(["users", "ann"], "seat", {"text": "A seat by the window."})
for found in client.store.search_items(["users"], query="window")["items"]:
    print(found["namespace"], found["value"], found["score"])
# A graph with MemoryHubSaver and this thread_id adds states.
print(thread["thread_id"], client.threads.get_history(thread["thread_id"]))

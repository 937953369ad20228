"""A LangGraph graph that asks a person, goes on in a new process, and goes back.

    pip install './memoryhub_client[langgraph]' langgraph
    MEMORYHUB_KEY=mh_live_… python examples/langgraph_graph.py

Its checkpoints are keys of the hub's thread `langgraph:order-…`, and points to restore.
"""

# ruff: noqa: T201
import operator
import os
import uuid
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from memoryhub_client import Client
from memoryhub_client.langgraph import MemoryHubSaver

URL = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")
ORDER: Any = {"configurable": {"thread_id": f"order-{uuid.uuid4()}"}}


class Order(TypedDict):
    steps: Annotated[list[str], operator.add]


def build(hub: Client) -> Any:
    graph = StateGraph(Order)
    graph.add_node("draft", lambda _: {"steps": ["A letter is drafted."]})
    graph.add_node("review", lambda _: {"steps": [interrupt("Shall it be sent?")]})
    graph.add_node("send", lambda order: {"steps": [f"Done: {order['steps'][-1]}"]})
    graph.add_edge(START, "draft").add_edge("draft", "review").add_edge(
        "review", "send"
    )
    return graph.compile(checkpointer=MemoryHubSaver(hub))


with Client(URL, os.environ["MEMORYHUB_KEY"]) as hub:
    print(build(hub).invoke({"steps": []}, ORDER)["__interrupt__"][0].value)

# Another process, or the next day: all that the graph knows is in the hub.
with Client(URL, os.environ["MEMORYHUB_KEY"]) as hub:
    graph = build(hub)
    print(graph.invoke(Command(resume="Yes."), ORDER)["steps"])
    past = [each for each in graph.get_state_history(ORDER) if each.next == ("review",)]
    graph.invoke(None, past[-1].config)
    print(graph.invoke(Command(resume="No."), ORDER)["steps"])

#!/bin/sh
# Library: langgraph 1.2.24 (with langgraph-checkpoint 4.3.2), DeltaChannel, which is in beta
# Behaviour: a channel of this kind is in no checkpoint's `channel_values`, only in the writes of the checkpoints before it.
#   Whoever carries a thread over by its newest checkpoint, as importers and moves between databases do, or reads messages
#   from `channel_values`, gets an empty conversation and no error: the copied graph answers as if nothing had been said.
#   `channel_versions` of that checkpoint still names the channel. With `add_messages` the same copy has all messages.
# Seen: plain: state 6, copied 6 / delta: state 6, copied 0, named in channel_versions True
# Source: package langgraph, module langgraph.channels.delta (DeltaChannel)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q langgraph==1.2.24 langgraph-checkpoint==4.3.2 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import sys
from typing import Annotated, TypedDict
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

def join(state, writes):
    for each in writes:
        state = add_messages(state or [], each)
    return state

class Plain(TypedDict):
    messages: Annotated[list, add_messages]

class Delta(TypedDict):
    messages: Annotated[list, DeltaChannel(join)]

got = {}
for name, schema in (("plain", Plain), ("delta", Delta)):
    graph = StateGraph(schema)
    graph.add_node("bot", lambda state: {"messages": [AIMessage("reply")]})
    graph.add_edge(START, "bot")
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver, other = InMemorySaver(), InMemorySaver()
    app = graph.compile(checkpointer=saver)
    for text in ("one", "two", "three"):
        app.invoke({"messages": [HumanMessage(text)]}, config)
    newest = saver.get_tuple(config)
    point = newest.checkpoint
    other.put(config, point, newest.metadata, point["channel_versions"])
    copied = graph.compile(checkpointer=other).get_state(config).values["messages"]
    got[name] = (len(app.get_state(config).values["messages"]), len(copied), "messages" in point["channel_versions"])
    print(f"{name}: state %d, copied %d, named in channel_versions %s" % got[name])
if got != {"plain": (6, 6, True), "delta": (6, 0, True)}:
    sys.exit(f"changed: {got}")
P

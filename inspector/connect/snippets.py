"""Snippets: programs that send a first message, and a client's configuration. Pure.

Each program runs as it stands, with the key in MEMORYHUB_KEY.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Placeholder for the server's address.
_HOST = "HOST"
#: Thread that the programs write to.
THREAD = "first-flight"

_PYTHON_SEND = """\
import json, os, urllib.request
@
HUB = "HOST/api/v1/threads/first-flight"
HEADERS = {
    "Authorization": "Bearer " + os.environ["MEMORYHUB_KEY"],
    "Content-Type": "application/json",
}

def send(path, body, method="POST"):
    data = json.dumps(body).encode()
    request = urllib.request.Request(
        HUB + path, data, HEADERS, method=method
    )
    return json.load(urllib.request.urlopen(request))

def slot(role, text):
    return {
        "from": role, "to": "agent" if role == "user" else "user",
        "type": "chat." + role,
        "content": {"role": role, "content": text},
    }

# The thread's person, by your own id.
send("", {"user_id": "customer-7"}, "PUT")
"""
_PYTHON = (
    _PYTHON_SEND.replace("@\n", "\n")
    + """
question = slot("user", "Is NL 482 on time?")
turn = send("/turns", {"items": [question]})
# Send this request to your model, then keep the model's answer.
print(turn["request"])
send("/slots", slot("assistant", "Yes, it leaves at 9:40."))
"""
)
_LANGGRAPH = (
    "# pip install langgraph\n"
    + _PYTHON_SEND.replace(
        "@\n", "from langgraph.graph import START, MessagesState, StateGraph\n\n"
    )
    + """
def model(request):  # your chat-completions client
    return "Yes, it leaves at 9:40."

def answer(state: MessagesState):
    question = slot("user", state["messages"][-1].content)
    turn = send("/turns", {"items": [question]})
    reply = model(turn["request"])
    send("/slots", slot("assistant", reply))
    return {"messages": [("assistant", reply)]}

graph = StateGraph(MessagesState)
graph.add_node("answer", answer)
graph.add_edge(START, "answer")
asked = {"messages": [("user", "Is NL 482 on time?")]}
graph.compile().invoke(asked)
"""
)
_TYPESCRIPT = """\
const hub = "HOST/api/v1/threads/first-flight";
const headers = {
  Authorization: `Bearer ${process.env.MEMORYHUB_KEY}`,
  "Content-Type": "application/json",
};

async function send(path: string, body: object, method = "POST") {
  const sent = { method, headers, body: JSON.stringify(body) };
  const answer = await fetch(hub + path, sent);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function slot(role: string, text: string) {
  return {
    from: role, to: role === "user" ? "agent" : "user",
    type: `chat.${role}`,
    content: { role, content: text },
  };
}

// The thread's person, by your own id.
await send("", { user_id: "customer-7" }, "PUT");

const question = slot("user", "Is NL 482 on time?");
const turn = await send("/turns", { items: [question] });
// Send this request to your model, then keep the model's answer.
console.log(turn.request);
const reply = slot("assistant", "Yes, it leaves at 9:40.");
await send("/slots", reply);
"""
_CURL = """\
HUB="HOST/api/v1/threads/first-flight"
KEY="Authorization: Bearer $MEMORYHUB_KEY"
TYPE="Content-Type: application/json"

# The thread's person, by your own id.
curl -X PUT "$HUB" -H "$KEY" -H "$TYPE" \\
  -d '{"user_id": "customer-7"}'

curl -X POST "$HUB/slots" -H "$KEY" -H "$TYPE" -d '
  {"from": "user", "to": "agent", "type": "chat.user",
   "content": {"role": "user", "content": "Is NL 482 on time?"}}'
"""
_MCP = """\
{
  "mcpServers": {
    "memoryhub": {
      "type": "http",
      "url": "HOST/mcp",
      "headers": {
        "Authorization": "Bearer ${MEMORYHUB_KEY}"
      }
    }
  }
}
"""

#: Strings, comments and keywords, each by the CSS class that colours it.
_MARKED = re.compile(
    r"""(?P<s>"[^"\n]*"|'[^']*'|`[^`\n]*`)|(?P<c>(?:\#|//).*)"""
    r"|(?P<k>\b(?:import|from|def|return|const|async|await|function|if|throw|new)\b)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """Program in one language, with the server's address filled in."""

    name: str
    title: str
    text: str

    @property
    def pieces(self) -> Iterator[tuple[str, str]]:
        """Pieces of the text, each with a CSS class for its colour, or none."""
        end = 0
        for found in _MARKED.finditer(self.text):
            yield "", self.text[end : found.start()]
            yield found.lastgroup or "", found[0]
            end = found.end()
        yield "", self.text[end:]


def list_snippets(host: str) -> list[Snippet]:
    """List the programs for a server at this address, the commonest language first."""
    return [
        Snippet(name=name, title=title, text=text.replace(_HOST, host))
        for name, title, text in (
            ("py", "Python", _PYTHON),
            ("ts", "TypeScript", _TYPESCRIPT),
            ("curl", "curl", _CURL),
            ("lg", "LangGraph", _LANGGRAPH),
            ("mcp", "MCP", _MCP),
        )
    ]

#!/bin/sh
# Library: anthropic 2.14.0
# Behaviour: `client.beta.messages.tool_runner` sends the conversation once. From its second request on the body holds the
#   tool results alone, no tools, and `thread: {"type": "continue", "previous_message_id": ...}`: the server is to know the
#   rest. A recorder, proxy or scripted server that reads the history from the body sees a lone user message with a result
#   that answers nothing. `thread=False` brings back whole bodies.
# Seen: roles by request: [user] create / [user] continue msg_1 / [user] continue msg_2; tools in the first alone
#       thread=False: [user] / [user assistant user] / [user assistant user assistant user]; tools in each
# Source: package anthropic, modules anthropic.lib.tools._beta_runner and anthropic.lib.threads._thread_state
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q anthropic==2.14.0 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import http.server, json, sys, threading
from anthropic import Anthropic, beta_tool

bodies = []

class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        n = len(bodies)
        part = {"type": "tool_use", "id": f"c{n}", "name": "recall", "input": {"key": "k"}}
        out = json.dumps({
            "id": f"msg_{n}", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None,
            "content": [part if n < 3 else {"type": "text", "text": "done"}], "stop_reason": "tool_use" if n < 3 else "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)

@beta_tool
def recall(key: str) -> str:
    """Recall what is kept under a key."""
    return "v"

web = http.server.HTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=web.serve_forever, daemon=True).start()
client, got = Anthropic(api_key="none", base_url=f"http://127.0.0.1:{web.server_port}"), []
for more in ({}, {"thread": False}):
    bodies.clear()
    client.beta.messages.tool_runner(
        model="m", max_tokens=9, tools=[recall], messages=[{"role": "user", "content": "hi"}], **more).until_done()
    got += [(" ".join(m["role"] for m in b["messages"]), (b.get("thread") or {}).get("previous_message_id"), "tools" in b) for b in bodies]
print(*got, sep="\n")
u = "user assistant "
if got != [("user", None, True), ("user", "msg_1", False), ("user", "msg_2", False),
           ("user", None, True), (u + "user", None, True), (u * 2 + "user", None, True)]:
    sys.exit(f"changed: {got}")
P

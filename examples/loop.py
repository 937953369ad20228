"""An agent with memory: it keeps every message, and is brought those that have left.

    MEMORYHUB_KEY=mh_live_… python examples/loop.py ["A message" "The next one" …]

The model is any chat-completions server (OPENAI_BASE_URL, OPENAI_API_KEY, MODEL); by
default a scripted one, which plays a talk of its own.
"""

# ruff: noqa: S310, T201
import json
import os
import sys
import urllib.error
import urllib.request

import scripted

HUB = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000") + "/api/v1/threads/loop"
MODEL = os.environ.get("OPENAI_BASE_URL") or scripted.serve()
NAME = os.environ.get("MODEL", "scripted")
KEY = os.environ.get("MEMORYHUB_KEY")
KEYS = {
    HUB: f"Bearer {KEY or sys.exit('Set MEMORYHUB_KEY: create_key prints one.')}",
    MODEL: f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}",
}


def send(method: str, base: str, path: str, body: dict) -> dict:
    headers = {"Authorization": KEYS[base], "Content-Type": "application/json"}
    data = json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, headers, method=method)
    return json.load(urllib.request.urlopen(request))


def slot(message: dict) -> dict:
    role = message["role"]
    return {"from": role, "to": "agent", "type": f"chat.{role}", "content": message}


def ask(text: str) -> str:
    messages = [{"role": "user", "content": text}]
    while True:
        items = [slot(message) for message in messages]
        turn = send("POST", HUB, "/turns", {"items": items})
        request = {"model": NAME, **turn["request"]}
        choice = send("POST", MODEL, "/chat/completions", request)["choices"][0]
        reply = choice["message"]
        calls = reply.get("tool_calls") or []
        if not calls:
            send("POST", HUB, "/slots", slot(reply))  # the final reply is kept, too
            return reply["content"]
        # Calls and their results go into the next turn; so do your own tools'.
        results = [send("POST", HUB, "/tool-calls", call) for call in calls]
        messages = [reply, *results]


# So small that the first message has left by the last question.
SMALL = {"config": {"budget_tokens": 3_400, "reserved_tokens": 1_200}}
try:
    send("PUT", HUB, "", SMALL)
    for message in sys.argv[1:] or scripted.MESSAGES:
        print(f"> {message[:80]}\n{ask(message)}")
except urllib.error.HTTPError as refused:
    if "problem+json" not in refused.headers.get("Content-Type", ""):
        raise
    problem = json.load(refused)
    sys.exit(f"The hub refused ({problem['code']}): {problem['detail']}")
except urllib.error.URLError as failure:
    sys.exit(f"No answer from {HUB} or {MODEL}: {failure.reason}")

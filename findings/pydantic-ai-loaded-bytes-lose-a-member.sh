#!/bin/sh
# Library: pydantic-ai-slim 2.68.0
# Behaviour: a history of messages is dumped and loaded to be kept. Where a tool returned bytes, the JSON of the first dump
#   and the JSON of the loaded history differ: the part has the member `content_file_digests` before the load and lacks it
#   afterwards. Dumping once more changes nothing further. Whoever compares histories by their bytes, or chains digests of
#   them, sees a change that nobody made; keep the first JSON as it came.
# Seen: first dump has content_file_digests: True; after load and dump: False; second load and dump equal: True
# Source: package pydantic-ai-slim, module pydantic_ai.messages (ToolReturnPart, ModelMessagesTypeAdapter)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q pydantic-ai-slim==2.68.0 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - <<'P'
import sys
from pydantic_ai.messages import ModelMessagesTypeAdapter as History, ModelRequest, ToolReturnPart

part = ToolReturnPart(tool_name="read", content=b"some bytes", tool_call_id="c1")
dumps = [History.dump_json([ModelRequest(parts=[part])])]
for _ in range(2):
    dumps.append(History.dump_json(History.validate_json(dumps[-1])))
got = (b"content_file_digests" in dumps[0], b"content_file_digests" in dumps[1], dumps[1] == dumps[2])
print("first dump has content_file_digests: %s; after load and dump: %s; second load and dump equal: %s" % got)
for each in dumps:
    print(each.decode())
if got != (True, False, True):
    sys.exit(f"changed: {got}")
P

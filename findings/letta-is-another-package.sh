#!/bin/sh
# Library: letta 0.34.12 (against letta 0.16.8)
# Behaviour: the name on the Python index holds another product since 0.32. The wheel is the terminal program: a Node.js
#   runtime, JavaScript and one Python module `letta_code` that starts it. There is no package `letta`, so whoever reads or
#   checks agent files (`.af`) with the library's own classes (letta.schemas.agent_file) has to stay at 0.16.8, the last
#   with them; an open requirement such as letta>=0.16 installs well and fails at the first import.
# Seen: 0.16.8: package letta, agent_file.py True / 0.34.12: package letta_code, agent_file.py False, node True
# Source: package letta, list of the wheel's files and its letta_code/__init__.py
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
for version in 0.16.8 0.34.12; do
    python3 -m venv "$T/$version"
    "$T/$version/bin/pip" install -q --no-deps "letta==$version" 2>"$T/log" || { cat "$T/log"; exit 1; }
    "$T/$version/bin/python" - "$version" <<'P'
import importlib.metadata, importlib.util, sys

files = [f.as_posix() for f in importlib.metadata.files("letta")]
got = (sorted({f.split("/")[0] for f in files if f.endswith("/__init__.py") and f.count("/") == 1}),
       importlib.util.find_spec("letta") is not None, "letta/schemas/agent_file.py" in files,
       any(f.split("/")[-2:] in (["bin", "node"], ["bin", "node.exe"]) for f in files))
print(sys.argv[1], "packages, import letta, agent_file.py, node:", *got)
old = sys.argv[1] == "0.16.8"
if got != (["letta"] if old else ["letta_code"], old, old, not old):
    sys.exit(f"changed: {got}")
P
done

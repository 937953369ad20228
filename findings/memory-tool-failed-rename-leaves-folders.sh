#!/bin/sh
# Library: anthropic 2.14.0, the memory tool on the local file system
# Behaviour: a `rename` that fails since there is nothing under the old name has an effect: the folders of the new name are
#   made first, stay, and are shown to the model by the next `view`. A store without folders (names with slashes) that
#   answers with the same error shows another memory from then on. A failed delete, insert or str_replace leaves nothing.
# Seen: rename: ToolError "The path /memories/gone.md does not exist"
#       view afterwards lists /memories/archive/ and /memories/archive/2026/
#       after a failed delete, insert and str_replace: /memories alone
# Source: package anthropic, module anthropic.lib.tools._beta_builtin_memory_tool (BetaLocalFilesystemMemoryTool.rename)
set -eu
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
python3 -m venv "$T/v"
"$T/v/bin/pip" install -q anthropic==2.14.0 2>"$T/log" || { cat "$T/log"; exit 1; }
"$T/v/bin/python" - "$T" <<'P'
import sys
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

deeds = [{"command": "delete", "path": "/memories/x/gone.md"},
         {"command": "insert", "path": "/memories/x/gone.md", "insert_line": 0, "insert_text": "a"},
         {"command": "str_replace", "path": "/memories/x/gone.md", "old_str": "a", "new_str": "b"},
         {"command": "rename", "old_path": "/memories/gone.md", "new_path": "/memories/archive/2026/gone.md"}]
got = []
for n, deed in enumerate(deeds):
    tool = BetaLocalFilesystemMemoryTool(f"{sys.argv[1]}/m{n}")
    try:
        said = tool.call(deed)
    except ToolError as e:
        said = f"ToolError: {e}"
    seen = [line.split("\t")[1] for line in tool.call({"command": "view", "path": "/memories"}).splitlines()[1:]]
    print(deed["command"], "->", said, "->", seen)
    got.append((said.startswith("ToolError"), seen))
if got != [(True, ["/memories"])] * 3 + [(True, ["/memories", "/memories/archive/", "/memories/archive/2026/"])]:
    sys.exit(f"changed: {got}")
P

#!/bin/sh
# Library: anthropic 2.14.0, the memory tool on the local file system
# Behaviour: whether `str_replace` may go ahead is counted without overlap, where the matches are is listed with overlap. A
#   text that matches at two places which overlap counts as unique and the first is replaced; with one more, the error
#   names more matches than were counted. An adapter that counts one way for both differs in one of the two answers.
# Seen: old_str "- -" in "- - -" (2 places that overlap): edited, "+ -"
#       in "- - - -" (2 matches, 3 with overlap): ToolError "... Multiple occurrences of old_str `- -` in lines: 1, 1, 1 ..."
# Source: package anthropic, module anthropic.lib.tools._beta_builtin_memory_tool (BetaLocalFilesystemMemoryTool.str_replace)
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

tool, got = BetaLocalFilesystemMemoryTool(f"{sys.argv[1]}/memory"), []
for text in ("- - -", "- - - -"):
    name = f"/memories/{len(text)}.md"
    tool.call({"command": "create", "path": name, "file_text": text})
    try:
        tool.call({"command": "str_replace", "path": name, "old_str": "- -", "new_str": "+"})
        got.append(tool.call({"command": "view", "path": name}).splitlines()[1].split("\t")[1])
    except ToolError as e:
        got.append(str(e).split("lines: ")[1].split(".")[0])
        print(e)
    print(repr(text), "->", got[-1])
if got != ["+ -", "1, 1, 1"]:
    sys.exit(f"changed: {got}")
P

"""Naming of a noun: in its own files and the lists, elsewhere only for a reason."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCT = ("memoryhub", "inspector", "templates", "static")
DOCUMENT = "docs/adding-a-noun.md"

#: Ends the name of a folder, or begins or ends that of a file.
OWN = re.compile(r"/notes?[/._]|_notes?\.")
#: The noun as a word, name, event or class of CSS; `_note` is a function that writes,
#: and `role="note"` is a word of ARIA.
NAMED = re.compile(
    r"(?<![A-Za-z])(?<!\W_)notes(?![a-z])|Notes|(?<![A-Z])NOTES?(?![A-Za-z])"
    r"|\bNote[A-Z]|note_bytes|(?<!role=)[\"']note\b|\.note[ {:]|scratchpad|\bjotted\b"
)
#: Besides, where notes are named and why nothing says it for them.
ELSEWHERE = {
    "memoryhub/api/document/openapi.py": "prose: the introduction of the document",
    "memoryhub/api/memory/checkpoints.py": "prose: what an operation does",
    "memoryhub/api/memory/working_memory.py": "prose: what an operation does",
    "memoryhub/demo/agents.py": "the demo's agents write some",
    "memoryhub/demo/client.py": "the demo's agents write some",
    "memoryhub/kernel/tools/memory_tools.py": "what a model's tool is called",
    "memoryhub/mcp/tools.py": "a model adds some",
    "memoryhub/services/knowledge/model_tools.py": "a model adds some",
    "inspector/words/record_words.py": "what a kind of record is called",
    "inspector/words/words.py": "the word in one sentence, as the glossary has it",
    "static/css/memory.css": "how a line of the scratchpad looks",
}


def test_notes_are_named_in_few_files_beside_their_own_and_the_lists() -> None:
    found = {
        name
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in {".py", ".html", ".js", ".css"}
        if not OWN.search(name := str(path.relative_to(ROOT)))
        if NAMED.search(path.read_text(encoding="utf-8"))
    }
    _, lines = (ROOT / DOCUMENT).read_text(encoding="utf-8").split("## Its lines")
    lists = {*re.findall(r"`([\w/]+\.\w+)`", lines)}
    assert found - lists == {*ELSEWHERE}
    assert len(ELSEWHERE) <= 11

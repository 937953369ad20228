"""Modules that open sealed bytes: a short list, which docs/architecture.md names."""

import ast

from tests.sources.files import modules, short, tree

#: Each module that opens sealed bytes, and what it opens.
OPENERS = {
    "memoryhub/journal/texts.py": "payloads of events, for queries and services",
    "memoryhub/journal/log/snapshots.py": "snapshots",
    "memoryhub/journal/log/thread_terms.py": "segments, and payloads to make them of",
    "memoryhub/journal/rows/knowledge/assertion_rows.py": "payloads, to rebuild rows",
    "memoryhub/queries/export/bundle_events.py": "payloads of whole threads",
    "memoryhub/services/people/subjects.py": "user ids",
}
VAULT = "memoryhub/vault/keys/payloads.py"


def test_sealed_bytes_are_opened_by_listed_modules_only() -> None:
    found = {
        short(path)
        for path in modules("memoryhub", "inspector")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute | ast.Name)
        and getattr(node, "attr", getattr(node, "id", ""))
        in ("open_sealed", "build_opener")
    }
    assert found - {VAULT} == OPENERS.keys()

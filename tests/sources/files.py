"""The project's own sources, as text and as trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def modules(*folders: str) -> list[Path]:
    """Return the Python sources under these folders, without generated migrations."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if "migrations" not in path.parts)


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def iter_calls(module: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(module) if isinstance(node, ast.Call))


def related_names() -> set[str]:
    """Return the attributes by which a row reaches the rows that refer to it."""
    return {
        keyword.value.value
        for path in modules("memoryhub/models")
        for call in iter_calls(tree(path))
        for keyword in call.keywords
        if keyword.arg == "related_name"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    }

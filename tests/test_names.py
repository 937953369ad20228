"""What things are called, read from their sources: a name says what it holds."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.sources.files import modules, short, tree
from tests.test_rooms import FOLDERS, templates

STOP_WORDS = "memoryhub/kernel/search/terms.py"
#: Names that say nothing of what is inside.
NAMELESS = {"utils", "helpers", "common", "base", "misc"}
#: Names that make a reader guess: who asked, what was told, some of which?
RIDDLES = {
    *("asked", "burials", "ceremonies", "departures", "haystacks", "hers", "known"),
    *("like", "offices", "press", "said", "she", "some", "told", "tries"),
}

GENDERED = re.compile(r"\b(?:she|her|hers)\b", re.IGNORECASE)


def test_every_module_is_named_after_what_it_is_about() -> None:
    places = modules(*FOLDERS)
    nameless = [
        short(path) for path in places if NAMELESS & {path.stem, path.parent.name}
    ]
    assert nameless == []


def test_no_name_is_a_riddle() -> None:
    found = [
        f"{short(path)}:{line} {name}"
        for path in modules("memoryhub", "inspector")
        for line, name in names(tree(path))
        if name.strip("_").lower() in RIDDLES
    ]
    assert found == []


def test_a_subject_is_it() -> None:
    """Whoever a memory is about; a stored word of receipts and stop words are left."""
    sources = [*modules("memoryhub", "inspector"), *templates()]
    texts = {short(path): path.read_text(encoding="utf-8") for path in sources}
    found = {
        name: gendered
        for name, text in texts.items()
        if name != STOP_WORDS
        if (gendered := GENDERED.findall(text.replace('"hers"', "")))
    }
    assert found == {}


def names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The functions, classes, parameters and variables of a module, by line."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


@pytest.mark.parametrize(
    "line",
    ["def _told(): ...", "class Hers: ...", "lambda asked: 1", "for some in (): ..."],
)
def test_a_riddle_is_seen(line: str) -> None:
    found = {name.strip("_").lower() for _, name in names(ast.parse(line))}
    assert found & RIDDLES

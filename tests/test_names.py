"""Names and first words, read from the sources: a line is understood by itself."""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.sources.files import ROOT, modules, short, tree
from tests.test_rooms import FOLDERS, templates

STOP_WORDS = "memoryhub/kernel/search/terms.py"
#: Names that say nothing of what is inside.
NAMELESS = {"utils", "helpers", "common", "base", "misc"}
#: Names that make a reader guess: who asked, what was told, some of which?
RIDDLES = {
    *("asked", "burials", "ceremonies", "departures", "haystacks", "hers", "known"),
    *("like", "offices", "press", "said", "she", "some", "told", "tries"),
}

PRODUCT = ("memoryhub", "inspector", "memoryhub_client")
#: Participles, adjectives, prepositions and nouns: no function's whole name.
LONE = {*(ROOT / "tests/sources/lone_names.txt").read_text(encoding="utf-8").split()}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINING = (ast.Module, ast.ClassDef, *FUNCTIONS)
#: Methods of tests that stand for those of a library.
DEMANDED = {"tests/client/test_langgraph_store.py ReferenceStore.batch"}
QUESTIONS = ("is_", "has_", "can_", "needs_", "should_")
#: Docstrings, tests and commits begin with what they are about.
OPENERS = {
    *("what", "whoever", "who", "nor", "that", "of", "which", "where", "how", "by"),
    *("as", "or", "and"),
}
#: Tests begin with their subject, without an article or a pronoun.
TEST_OPENERS = OPENERS | {
    *("a", "an", "the", "it", "its", "they", "one", "another", "nothing", "nobody"),
}
#: The commit that the rules of words hold since.
FIRST_RULED = "e83925d1"

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
        for line, name in iter_names(tree(path))
        if name.strip("_").lower() in RIDDLES
    ]
    assert found == []


def test_subject_is_it() -> None:
    """Find no gendered pronoun but a stored word of receipts, and stop words."""
    sources = [*modules("memoryhub", "inspector"), *templates()]
    texts = {short(path): path.read_text(encoding="utf-8") for path in sources}
    found = {
        name: gendered
        for name, text in texts.items()
        if name != STOP_WORDS
        if (gendered := GENDERED.findall(text.replace('"hers"', "")))
    }
    assert found == {}


def iter_names(module: ast.Module) -> Iterator[tuple[int, str]]:
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
def test_riddle_is_seen(line: str) -> None:
    found = {name.strip("_").lower() for _, name in iter_names(ast.parse(line))}
    assert found & RIDDLES


class Definition(NamedTuple):
    """A module, class or function, by what the rules ask of it."""

    kind: type[ast.AST]
    file: str
    #: With the names of what it stands in.
    name: str
    decorators: str
    #: First word of its docstring, in small letters.
    opener: str
    returns: str

    @property
    def place(self) -> str:
        return f"{self.file} {self.name}"

    @property
    def own_name(self) -> str:
        return self.name.rpartition(".")[2]


@cache
def list_definitions(path: Path) -> list[Definition]:
    """List the definitions of a file; its tree is not kept: all of them are large."""
    found = list[Definition]()

    def walk(node: ast.AST, name: str) -> None:
        if isinstance(node, DEFINING):
            name = f"{name}.{getattr(node, 'name', '')}".lstrip(".")
            returns = getattr(node, "returns", None)
            found.append(
                Definition(
                    type(node),
                    short(path),
                    name,
                    " ".join(map(ast.unparse, getattr(node, "decorator_list", ()))),
                    first_word(ast.get_docstring(node) or ""),
                    ast.unparse(returns) if returns else "",
                )
            )
        if isinstance(node, (ast.mod, ast.stmt)):
            for child in ast.iter_child_nodes(node):
                walk(child, name)

    walk(tree(path), "")
    return found


def iter_definitions(*folders: str) -> Iterator[Definition]:
    return chain.from_iterable(map(list_definitions, modules(*folders)))


def list_functions() -> list[Definition]:
    """List the product's functions whose names are ours to choose.

    A route's name is its operation's, a tag's that of templates, and a public name of
    the client that of its users.
    """
    return [
        each
        for each in iter_definitions(*PRODUCT)
        if each.kind in FUNCTIONS
        and not re.search(r"property|router|register|overload", each.decorators)
        and not each.own_name.startswith("__")
        and not each.file.startswith("memoryhub_client/")
    ]


def list_helpers() -> list[Definition]:
    """List the functions of tests but fixtures, properties and a library's names."""
    return [
        each
        for each in iter_definitions("tests")
        if each.kind in FUNCTIONS
        and not re.search(r"fixture|property", each.decorators)
        and each.place not in DEMANDED
    ]


def find_lone_names() -> list[str]:
    found = chain(list_functions(), list_helpers())
    return [each.place for each in found if each.own_name.strip("_") in LONE]


def find_unasked_truths() -> list[str]:
    """Find functions that return a bool and ask no question by their name.

    An act may return whether it was done: its docstring begins with its name's verb.
    """
    return [
        each.place
        for each in list_functions()
        if each.returns == "bool"
        and not (name := each.own_name.strip("_")).startswith(QUESTIONS)
        and name.split("_")[0] != each.opener
    ]


def find_repeated_classes() -> list[str]:
    """Find classes of one name; a class in a class is known by both (Erasure.State)."""
    places = defaultdict[str, list[str]](list)
    for each in iter_definitions(*PRODUCT):
        if each.kind is ast.ClassDef and each.name != "Command":
            places[each.name].append(each.place)
    return [place for all_of in places.values() if len(all_of) > 1 for place in all_of]


def find_odd_docstrings() -> list[str]:
    found = iter_definitions(*FOLDERS)
    return [each.place for each in found if each.opener in OPENERS]


def find_odd_tests() -> list[str]:
    return [
        each.place
        for each in iter_definitions("tests")
        if each.own_name.startswith("test_")
        and each.own_name.split("_")[1] in TEST_OPENERS
    ]


def first_word(text: str) -> str:
    return re.split(r"\W", text.strip(), maxsplit=1)[0].lower()


@pytest.mark.parametrize(
    "find",
    [
        find_lone_names,
        find_unasked_truths,
        find_repeated_classes,
        find_odd_docstrings,
        find_odd_tests,
    ],
)
def test_words_keep_their_rules(find: Callable[[], list[str]]) -> None:
    assert find() == []


def test_commit_subjects_begin_with_their_area() -> None:
    """Read what was committed since the rules hold; a copy without history has none."""
    log = ["git", "log", "--format=%s", f"{FIRST_RULED}..HEAD"]
    done = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=False)
    subjects = done.stdout.splitlines()
    odd = [
        each
        for each in subjects
        if not (found := re.match(r"[\w ,/-]+: ([A-Z]\w*)", each))
        or found[1].lower() in OPENERS
    ]
    assert odd == []

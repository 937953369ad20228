"""Shape of the house, read from its sources: what no linter can see."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from memoryhub import errors
from memoryhub.api.errors import STATUS
from memoryhub.kernel.commands import Command
from memoryhub.kernel.registry import DECIDE, EVOLVE
from memoryhub.kernel.state.bodies import EventBody
from tests.sources.files import ROOT, iter_calls, modules, short, tree

CODE = ("memoryhub", "inspector", "memoryhub_client", "benchmarks", "tools")
FOLDERS = (*CODE, "tests")

MODULE_LINES = 700
FUNCTION_LINES = 60
PAGE_LINES = 120
PARTIAL_LINES = 60
WIDTH = 160


KERNEL_IMPORTS = {
    *("Stemmer", "numpy", "pydantic", "rpds"),
    *("memoryhub.kernel", "memoryhub.errors"),
}
#: Of the standard library, what would let a clock, chance or the world in.
IMPURE = {
    *("asyncio", "concurrent", "ctypes", "glob", "http", "io", "logging", "mmap"),
    *("multiprocessing", "os", "pathlib", "platform", "queue", "random", "sched"),
    *("secrets", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl"),
    *("subprocess", "tempfile", "threading", "time", "urllib"),
}
#: `hash` of a text differs from process to process.
IMPURE_CALLS = {"eval", "exec", "hash", "input", "open", "print"}
IMPURE_METHODS = {"now", "today", "utcnow", "uuid1", "uuid4"}


def templates() -> list[Path]:
    return sorted((ROOT / "templates").rglob("*.html"))


def count_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


# Size


def test_no_module_is_longer_than_its_cap() -> None:
    long = {short(path): count_lines(path) for path in modules(*FOLDERS)}
    assert {name: n for name, n in long.items() if n > MODULE_LINES} == {}


def test_no_function_is_longer_than_its_cap() -> None:
    found = {
        f"{short(path)}:{node.lineno} {node.name}": length(node)
        for path in modules(*CODE)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: n for name, n in found.items() if n > FUNCTION_LINES} == {}


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines from a function's name to its end, without the docstring."""
    assert function.end_lineno is not None
    total = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        assert docstring.end_lineno is not None
        total -= docstring.end_lineno - docstring.lineno + 1
    return total


def test_no_page_and_no_partial_is_longer_than_its_cap() -> None:
    caps = {
        path: PARTIAL_LINES if path.name.startswith("_") else PAGE_LINES
        for path in templates()
    }
    long = {
        short(path): count_lines(path)
        for path, cap in caps.items()
        if count_lines(path) > cap
    }
    assert long == {}


def test_no_style_is_wider_than_its_cap() -> None:
    assert wide(sorted((ROOT / "static" / "css").glob("*.css"))) == {}


def test_no_template_is_wider_than_its_cap() -> None:
    assert wide(templates()) == {}


@pytest.mark.parametrize(("begin", "end"), [("{#", "#}"), ("{%", "%}")])
def test_template_tags_end_on_their_line(begin: str, end: str) -> None:
    """A tag or comment that goes on in the next line is shown to people as text."""
    for path in templates():
        for line in path.read_text(encoding="utf-8").splitlines():
            assert line.count(begin) == line.count(end), short(path)


def wide(paths: list[Path]) -> dict[str, int]:
    return {
        f"{short(path)}:{number}": len(line)
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > WIDTH
    }


# Kernel


def imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            assert node.module is not None
            yield node.module


def kernel() -> list[Path]:
    return [*modules("memoryhub/kernel"), *modules("memoryhub/errors")]


def test_kernel_imports_only_what_is_pure() -> None:
    wrong = [
        f"{short(path)}: {name}"
        for path in kernel()
        for name in imported(tree(path))
        if not pure(name)
    ]
    assert wrong == []


def pure(name: str) -> bool:
    first = name.partition(".")[0]
    if first in sys.stdlib_module_names:
        return first not in IMPURE
    inside = any(name.startswith(f"{room}.") for room in KERNEL_IMPORTS)
    return inside or name in {*KERNEL_IMPORTS, "memoryhub"}


def test_kernel_asks_neither_clock_nor_chance_nor_the_world() -> None:
    wrong = [
        f"{short(path)}:{call.lineno} {ast.unparse(call.func)}"
        for path in kernel()
        for call in iter_calls(tree(path))
        if impure(call.func)
    ]
    assert wrong == []


def impure(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in IMPURE_CALLS | IMPURE_METHODS
    return isinstance(function, ast.Attribute) and function.attr in IMPURE_METHODS


# Completeness


def test_sources_use_no_signals_or_generic_keys() -> None:
    """No signals and no generic keys: the effects of a write stand at its call."""
    banned = {"django.db.models.signals", "django.dispatch"}
    wrong = [
        f"{short(path)}: {name}"
        for path in modules("memoryhub", "inspector")
        for name in imported(tree(path))
        if name in banned or name.endswith(".contenttypes.fields")
    ]
    assert wrong == []


def test_every_service_has_its_tests() -> None:
    services = (ROOT / "memoryhub" / "services").rglob("*.py")
    nouns = {path.stem for path in services} - {"__init__"}
    tested = {path.stem for path in (ROOT / "tests" / "services").rglob("test_*.py")}
    assert nouns
    assert {f"test_{noun}" for noun in nouns} <= tested


def descendants(parent: type) -> set[type]:
    """Return the classes derived from this one, besides those that tests make."""
    found: set[type] = set()
    waiting: list[type] = [parent]
    while waiting:
        children: list[type] = type.__subclasses__(waiting.pop())
        fresh = {each for each in children if each.__module__.startswith("memoryhub.")}
        waiting += fresh - found
        found |= fresh
    return found


def test_every_refusal_has_a_status_and_says_what_to_do() -> None:
    refusals = descendants(errors.Refusal)
    assert {refusal.__name__ for refusal in refusals - STATUS.keys()} == set()
    assert {refusal.__name__ for refusal in refusals if not refusal.__doc__} == set()
    assert all(400 <= status < 600 for status in STATUS.values())


def test_every_command_is_decided() -> None:
    families = {each.__base__ for each in DECIDE}
    # By name: a dataclass with slots is made of another class of that name.
    concrete = {each.__name__ for each in descendants(Command) - families}
    assert {each.__name__ for each in DECIDE} == concrete


def test_every_event_folds() -> None:
    concrete = {
        event for event in descendants(EventBody) if "event_type" in vars(event)
    }
    assert set(EVOLVE) == concrete
    words = [event.event_type for event in EVOLVE]
    assert len(words) == len(set(words))


# Templates

BANNED: dict[str, re.Pattern[str]] = {
    "|safe": re.compile(r"\|\s*safe(seq)?\b"),
    "autoescape off": re.compile(r"autoescape\s+off"),
    "style=": re.compile(r"<[^>]*\sstyle\s*=", re.IGNORECASE),
    "<style>": re.compile(r"<style\b", re.IGNORECASE),
    "hx-on": re.compile(r"\bhx-on\b", re.IGNORECASE),
    "hx-boost": re.compile(r"\bhx-boost\b", re.IGNORECASE),
    "js:": re.compile(r"=\s*[\"']\s*(js|javascript):", re.IGNORECASE),
    "a trigger's [filter]": re.compile(r"\bhx-trigger\s*=\s*([\"'])[^\"']*\["),
    "an inline handler": re.compile(r"<[^>]*\son[a-z]+\s*=", re.IGNORECASE),
    "a script with a body": re.compile(
        r"<script\b[^>]*>(?!\s*</script>)", re.IGNORECASE
    ),
}


#: Functions that call an unescaped text markup.
UNESCAPED = {"mark_safe", "SafeData", "SafeString", "html_safe", "is_safe"}


@cache
def markup() -> list[tuple[str, str]]:
    """Return text that becomes HTML, with its place: templates, and strings of code."""
    return [*_markup()]


def _markup() -> Iterator[tuple[str, str]]:
    for path in templates():
        yield short(path), path.read_text(encoding="utf-8")
    for path in modules("memoryhub", "inspector"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{short(path)}:{node.lineno}", node.value


@pytest.mark.parametrize("what", BANNED)
def test_template_bans_hold(what: str) -> None:
    found = [place for place, text in markup() if BANNED[what].search(text)]
    assert found == []


def test_no_code_calls_a_text_markup() -> None:
    """`format_html` escapes its arguments; the rest is the templates' job."""
    wrong = [
        f"{short(path)}: {name}"
        for path in modules("memoryhub", "inspector")
        for name in UNESCAPED
        & set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("what", "markup"),
    [
        ("|safe", "{{ text|safe }}"),
        ("autoescape off", "{% autoescape off %}"),
        ("style=", '<p class="a" style="color: red">'),
        ("<style>", "<style>p {}</style>"),
        ("hx-on", '<p hx-on:click="x()">'),
        ("hx-boost", '<a hx-boost="true">'),
        ("js:", "<p hx-vals='js:{}'>"),
        ("a trigger's [filter]", '<p hx-trigger="click[ctrlKey]">'),
        ("an inline handler", '<p onclick="x()">'),
        ("a script with a body", "<script>x()</script>"),
    ],
)
def test_template_ban_detects_its_markup(what: str, markup: str) -> None:
    assert BANNED[what].search(markup)
    assert not BANNED[what].search('<script src="/a.js" defer></script><b>{{ x }}</b>')


def test_every_partial_says_what_it_needs() -> None:
    partials = [path for path in templates() if path.name.startswith("_")]
    silent = [
        short(path)
        for path in partials
        if not path.read_text(encoding="utf-8").startswith("{# Needs:")
    ]
    assert silent == []

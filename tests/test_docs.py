"""Documents that can't rot: they name what exists, and what they point at is there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from memoryhub import distribution, errors
from memoryhub.api import api
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.settings import Environment
from tools import docs

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(docs.DOCS.rglob("*.md")),
]
#: Of Markdown, and of pictures that come in two themes.
LINK = re.compile(r'(?:\]\(|src="|srcset=")([^)"\s]+)')
#: Folders too.
PATH = re.compile(
    r"`((?:benchmarks|examples|inspector|memoryhub|memoryhub_client|static|tests|tools)"
    r"/[\w./-]*)`"
)

#: An install command, and what it installs by name from the package index.
INSTALL = re.compile(
    r"\b(?:pipx? (?:install|run)|uv (?:pip install|add|tool install|tool run)|uvx"
    r"|npm (?:install|i|add)|npx)\b"
    r"([^`\n;&#]*)"
)
OURS = {distribution.NAME, distribution.CLIENT_NAME}
#: Names like ours; a path such as ./memoryhub_client is none.
LIKE_OURS = re.compile(r"(?<![\w./-])[\w-]*memory-?hub[\w-]*", re.IGNORECASE)


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def documents() -> str:
    texts = (page.read_text(encoding="utf-8") for page in PAGES)
    return "\n".join([*texts, json.dumps(api.get_openapi_schema())])


def refusals(base: type[errors.Refusal] = errors.Refusal) -> set[str]:
    codes = {base.__dict__.get("code", "")}
    for each in base.__subclasses__():
        codes |= refusals(each)
    return {code for code in codes if isinstance(code, str) and code}


@pytest.mark.parametrize("name", sorted(docs.GENERATED))
def test_generated_docs_match_their_generators(name: str) -> None:
    """Event types, commands, figures, promises."""
    made = docs.GENERATED[name]()
    assert docs.between(docs.DOCS / name) == made, "run `make docs`"


@pytest.mark.parametrize("code", sorted(refusals()))
def test_every_error_code_is_named(code: str, documents: str) -> None:
    assert code in documents


@pytest.mark.parametrize("name", sorted(Environment.model_fields))
def test_every_setting_is_named(name: str, documents: str) -> None:
    assert f"`{name}`" in documents


def test_every_decision_has_a_number_of_its_own() -> None:
    pages = sorted((docs.DOCS / "decisions").glob("[0-9]*.md"))
    first = [page.read_text(encoding="utf-8").partition(". ")[0] for page in pages]
    assert first == [f"# {number}" for number in range(1, len(pages) + 1)]
    assert [int(page.name[:3]) for page in pages] == [*range(1, len(pages) + 1)]


# Links of documents


def test_readme_is_short() -> None:
    assert len(PAGES[0].read_bytes()) <= 12 * 1024


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_path_that_is_named_is_there(page: Path) -> None:
    """The paths are those of sources between backticks."""
    named = PATH.findall(page.read_text(encoding="utf-8"))
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_install_command_names_only_our_package() -> None:
    """On the package index `memoryhub` is a stranger's; a path such as ./x is ours."""
    suffixes = {".md", ".py", ".html", ".js", ".ts", ".toml", ".txt"}
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0")]
    assert LIKE_OURS.findall(" memoryhub[tokens] openai") == ["memoryhub"]
    assert LIKE_OURS.findall(" ./memoryhub_client openai") == []
    found = {
        (name, name_page(file))
        for file in files
        if file.suffix in suffixes and file.is_file() and file != Path(__file__)
        for command in INSTALL.findall(file.read_text(encoding="utf-8"))
        for name in LIKE_OURS.findall(command)
    }
    assert {name for name, _ in found} <= OURS, found


def test_every_page_is_reached_from_the_readme() -> None:
    reached, left = set[Path](), [PAGES[0]]
    while left:
        page = left.pop()
        if page not in reached:
            reached.add(page)
            files = (link.partition("#")[0] for link in links(page))
            left += [(page.parent / f).resolve() for f in files if f.endswith(".md")]
    assert reached == set(PAGES)


def links(page: Path) -> list[str]:
    """Return the links that stay in the repository."""
    return [link for link in LINK.findall(read_prose(page)) if "://" not in link]


def read_prose(page: Path) -> str:
    """Return the page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the names that headings are linked by, as the forges make them."""
    headings = re.findall(r"^#+ (.+)$", read_prose(page), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def test_every_setting_of_a_thread_is_documented() -> None:
    text = (docs.DOCS / "configuration.md").read_text(encoding="utf-8")
    rows = text.partition("## A thread's config")[2].partition("\n## ")[0]
    named = {*re.findall(r"`(\w+)`", rows)}
    assert {*ThreadConfig.model_fields} - named == set()

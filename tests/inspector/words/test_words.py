"""Words on pages: each has the meaning that the glossary gives."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import pytest
from django.template import Context, Template
from django.test import Client

from inspector.nouns import NOUNS
from inspector.urls import PERSON_PAGES
from inspector.words.words import WORDS
from memoryhub.kernel.state.paging import EXCHANGES_KEPT, REFAULT_TURNS
from memoryhub.queries.threads.thresholds import DEFAULTS
from memoryhub.services.access.api_keys import Agent
from tests.inspector.paged import make_paged, text_of

CONCEPTS = Path(__file__).parents[3] / "docs/concepts.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| `", re.MULTILINE)
#: Glossary entries that name a word with its record.
CALLED = {
    "key": "key of a thread",
    "frame": "frame of a page",
    "receipt": "receipt of an erasure",
}


def glossary() -> dict[str, str]:
    found = dict[str, str]()
    for words, meaning in ROW.findall(CONCEPTS.read_text(encoding="utf-8")):
        found |= dict.fromkeys(words.split(", "), meaning.replace("`", ""))
    return found


@pytest.mark.parametrize("word", WORDS)
def test_word_meaning_equals_the_glossary(word: str) -> None:
    sentence = WORDS[word]
    assert sentence.endswith(".")
    assert sentence[0].lower() + sentence[1:-1] == glossary()[CALLED.get(word, word)]


def test_glossary_has_each_noun_of_lists_and_of_a_person() -> None:
    singular = {"audit": "audit log"}
    names = [screen.name for screen in NOUNS] + [route for _, _, route in PERSON_PAGES]
    nouns = {singular.get(name, name.removesuffix("s")) for name in names}
    acts = {"fact-add", "fact-act", "block-add", "block-edit"}
    missing = {noun.replace("-", " ") for noun in nouns - acts} - {*WORDS}
    assert missing | ({"block", "episode", "assertion"} - {*WORDS}) == set()


def test_numbers_in_sentences_equal_the_kernel_constants() -> None:
    assert f"last {EXCHANGES_KEPT} exchanges" in WORDS["resident rate"]
    assert REFAULT_TURNS == 5
    assert "last five turns" in WORDS["refault"]
    assert DEFAULTS.most_refaults + 1 == 3
    assert "three refaults" in WORDS["thrashing"]


def test_term_shows_its_meaning_on_hover() -> None:
    text = '{% load words %}{% term "TLB" %} {% term "resident rate" "Resident" %}'
    shown = Template(text).render(Context())
    assert f'<span class="term" title="{WORDS["TLB"]}">TLB</span>' in shown
    assert ">Resident</span>" in shown


@pytest.mark.django_db
def test_words_page_lists_every_word_and_shortcut(viewer: Client) -> None:
    page = viewer.get("/p/acme/words").content.decode()
    assert [word for word in WORDS if escape(WORDS[word]) not in page] == []
    assert "<kbd>Ctrl K</kbd>" in page


@pytest.mark.django_db
def test_shortcut_sheet_links_to_the_words_page(viewer: Client) -> None:
    assert 'href="/p/acme/words"' in viewer.get("/p/acme/").content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/p/acme/", ("fault", "refault")),
        ("/p/acme/threads", ("resident rate", "turn")),
        ("/p/acme/health", ("thrashing", "resident rate", "TLB hit rate")),
        ("/p/acme/threads/paged", ("page", "pin")),
        ("/p/acme/threads/paged/turns/7", ("prefix", "page", "manifest")),
        ("/p/acme/threads/paged/paging", ("fault", "TLB", "L1", "hot list")),
        ("/p/acme/threads/paged/paging/settings", ("pin share",)),
        ("/p/acme/threads/paged/pages", ("level", "pin", "L0", "page")),
        ("/p/acme/threads/paged/pages/policy", ("L0", "pin", "level")),
    ],
)
def test_product_terms_are_explained_where_they_appear(
    owner: Client, agent: Agent, path: str, words: tuple[str, ...]
) -> None:
    make_paged(agent)
    page = text_of(owner, path)
    missing = [word for word in words if f'title="{WORDS[word]}"' not in page]
    assert missing == []

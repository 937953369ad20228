"""Links of pages: each named turn, event, page and checkpoint is a link."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.urls import resolve

from memoryhub.models.events import Event
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.inspector import denied, paged, remembered
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db

T = "/p/acme/threads/"
#: Number of addresses of one kind to visit.
EACH = 5
NAMED = re.compile(r"\b(?i:turn|event|checkpoint) [1-9]\d*|\bslot-\d+|landfall")
#: Elements without links: inputs, what opens on a click, agents' texts, drawings.
SKIPPED = {"option", "textarea", "button", "label", "summary"}
SKIPPED |= {"pre", "blockquote", "svg", "a"}
#: Kinds of pages whose heading names their own record.
THEMSELVES = ("turn", "page", "checkpoint-delete", "checkpoint-restore")
#: Words that name no record: a setting's count, and a turn yet to come.
NO_PLACE = re.compile(r"\b(?:per|until) turn [\d,]+$")
INLINE = ("a", "b", "i", "em", "code", "small")
VOID = ("meta", "link", "input", "br", "img", "hr", "wbr")


class Reader(HTMLParser):
    """Parser that gathers the links of a page, and the main text outside of links."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.skipped = SKIPPED | ({"h1"} if kind in THEMSELVES else set())
        self.open, self.links, self.said = list[str](), list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append(dict(attrs).get("href") or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE:
            self.said.append(" / ")
        while tag in self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "main" in self.open:
            self.said.append("|" if self.skipped & {*self.open} else data)

    def unlinked(self) -> list[str]:
        said = " ".join("".join(self.said).split())
        found = (said[max(0, m.start() - 25) : m.end()] for m in NAMED.finditer(said))
        return [words for words in found if not NO_PLACE.search(words)]


def test_every_named_turn_event_page_and_checkpoint_is_a_link(
    owner: Client, agent: Agent
) -> None:
    refund = denied.make_denial(agent)
    paged.make_paged(agent)
    memory_acts.take(agent, "landfall", thread="refund")
    memory_acts.restore(agent, "landfall", thread="refund")
    operator_threads.fork(refund, actor="operator:x", name="alt", seq=refund.head_seq)
    remembered.make_desk(agent)
    first = [f"{T}refund/turns/{denied.DENIED}", f"{T}refund?at_seq=12", "/p/acme/"]
    first += [f"{T}desk/events/15", f"{T}alt/forks", f"{T}alt/events/1"]
    first += [f"{T}refund/pages/slot-1?at_seq=20", f"{T}paged/turns/7"]
    types = dict(Event.objects.filter(thread=refund).values_list("type", "seq"))
    first += [f"{T}refund/events/{seq}" for seq in types.values()]
    waiting = [*first]
    looked, found, seen = Counter[str](), list[str](), set[str]()
    while waiting:
        path = urlsplit(waiting.pop(0))._replace(fragment="").geturl()
        kind = resolve(urlsplit(path).path).url_name or ""
        if path in seen or (looked[kind] >= EACH and path not in first):
            continue
        seen.add(path)
        looked[kind] += 1
        answer = owner.get(path)
        assert answer.status_code in (200, 302, 410), path
        if not answer.headers.get("Content-Type", "").startswith("text/html"):
            continue
        reader = Reader(kind)
        reader.feed(answer.content.decode())
        found += [f"{path}: {words}" for words in reader.unlinked()]
        waiting += [link for link in reader.links if link.startswith("/p/acme")]
    assert sum(looked.values()) > 150
    assert found == []

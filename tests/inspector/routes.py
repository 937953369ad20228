"""Every HTML route of the URLconf, with values for its parameters.

A route without known values fails each test that walks the routes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.urls import URLPattern, URLResolver, get_resolver

import inspector.urls
from inspector.knowledge.fact_acts import VERBS as FACT_VERBS
from inspector.memory.key_acts import VERBS as KEY_VERBS
from inspector.observing.observer_acts import TITLES as OBSERVER_ACTS
from inspector.paging.page_acts import VERBS
from inspector.replay.moments import PANELS
from inspector.turns.turn_page import PANELS as TURN_PANELS
from memoryhub.journal import Address, Order, perform
from memoryhub.kernel.commands import ImportMessages, RunMessage
from memoryhub.models.access.operators import Membership
from memoryhub.models.erasures import Tombstone
from memoryhub.models.server.clock import clock
from memoryhub.services.access import operators, webhooks
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures, receipts
from memoryhub.services.people import holds, subjects
from memoryhub.services.threads import operator_threads
from memoryhub.services.turns import marks
from tests.cast import factories, graves, knowing
from tests.oracles import memory_acts

KINDS = ("json", "csv", "ndjson")
LIST_PANELS = ("facets", "fresh")
#: A time long before any test.
SINCE = "since=2001-01-01T00:00:00%2B00:00"
#: Fields of a scan that went through all threads.
FOUND_NOTHING = (
    '{"scanner":"1","self_test":"passed","surfaces":["database"],"needles":{},'
    '"hits":[],"undeclared":0,"unreachable":[]}'
)
#: A message with a picture of ASCII bytes only, whose size is in no name here.
PICTURED = {
    "role": "user",
    "content": [
        {"type": "text", "text": "b"},
        {
            "type": "image_url",
            "image_url": {
                "url": "data:image/gif;base64,R0lGODlhBQAGAAAAACwAAAAAAQABAAACAkwBADs="
            },
        },
    ],
}
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An address of the inspector, with the names of its parameters."""

    name: str
    pattern: str

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(_PARAMETER.findall(self.pattern))

    def fill(self, values: dict[str, str]) -> str:
        """Return the address. Raises KeyError for a parameter that has no value."""
        return "/" + _PARAMETER.sub(lambda found: values[found[1]], self.pattern)


def list_routes() -> list[Route]:
    """List the routes of `inspector.urls`, as the resolver has them."""
    (ours,) = (
        each
        for each in get_resolver().url_patterns
        if isinstance(each, URLResolver) and each.urlconf_module is inspector.urls
    )
    return [_route(each) for each in ours.url_patterns]


def _route(pattern: URLPattern | URLResolver) -> Route:
    assert isinstance(pattern, URLPattern)
    assert pattern.name is not None, f"{pattern.pattern} has no name"
    return Route(name=pattern.name, pattern=str(pattern.pattern))


def variants(route: Route) -> Iterator[dict[str, str]]:
    """List the values of the parameters that are a choice: panel, export kind."""
    if "panel" in route.parameters:
        names = {
            "panel": PANELS,
            "erasure-panel": ("erasure",),
            "turn-panel": TURN_PANELS,
            "connect-panel": ("heard",),
            "search-panel": ("palette", "found"),
            "subject-panel": ("records",),
        }.get(route.name, LIST_PANELS)
        yield from ({"panel": name} for name in names)
    elif "verb" in route.parameters:
        verbs: Iterable[object] = KEY_VERBS if "key" in route.parameters else VERBS
        verbs = FACT_VERBS if "fact" in route.parameters else verbs
        verbs = OBSERVER_ACTS if route.name == "observer-act" else verbs
        yield from ({"verb": str(verb)} for verb in verbs)
    elif route.name == "audit-entry":
        # The entry of the project's creation, the first of a test.
        yield {"seq": "1"}
    elif "kind" in route.parameters:
        yield from ({"kind": kind} for kind in KINDS)
    else:
        yield {}


def make_family(agent: Agent, *, remembering: bool = False) -> dict[str, str]:
    """Make a thread with slots and turns, and a fork of it; return parameter values.

    Seqs: 1 created, 2 slot, 3 turn 1, 4 slot, 5 turn 2, 6 slot, 7 advanced; with
    working memory also 8 key, 9 checkpoint, 10 key, 11 note, 12 task, 13 mark.
    """
    factories.make_thread(agent, "t-1", user_id="ann", labels={"team": "red"})
    slots = (("a", False), (PICTURED, True), ("c", True))
    messages = [
        RunMessage(slot=factories.make_slot(text), turn=turn) for text, turn in slots
    ]
    command = ImportMessages(after=0, messages=tuple(messages), digest="00")
    address = Address(project=agent.project, name="t-1")
    perform(Order(address=address, command=command, actor="import"))
    parent = factories.get_thread(agent)
    operator_threads.fork(parent, actor="operator:x", name="t-1.alt", seq=5)
    factories.append(agent, "t-1.alt", "on its own")
    if remembering:
        _remember(agent)
    return {
        **_make_console(agent),
        "project": agent.slug,
        "thread": "t-1",
        "seq": "2",
        "index": "1",
        "part": "1",
        "token": "x" * 43,
        "prefix": agent.prefix,
        "page": "slot-0",
        "key": "seat",
        "number": "9",
        "fact": "2",
        "block": "persona",
        "verb": "pin",
        "n": "1",
    }


def _make_console(agent: Agent) -> dict[str, str]:
    """Make a person under a hold, a plan for a second one, and a receipt of a third.

    The first person has a value tombstone.
    """
    ann, bob, cid = (
        subjects.find_or_create(agent.project, name) for name in ("ann", "bob", "cid")
    )
    reviewer = operators.ensure_default()
    operators.set_role(ann.project, reviewer, Membership.Role.OWNER)
    member = operators.add("rita")
    operators.set_role(ann.project, member, Membership.Role.VIEWER)
    until = clock.now() + timedelta(days=9)
    held = holds.open_hold(
        ann,
        basis="archiving",
        reviewer=reviewer,
        expires_at=until,
        actor="command",
    )
    knowing.say(agent, ann, knowing.claim("OSL", 0))
    knowing.write(agent, ann, "persona", "Ann flies from Oslo.")
    factories.make_thread(agent, "t-bob", user_id="bob")
    webhook, _ = webhooks.create(
        ann.project,
        url="https://hooks.example.com/",
        types=["task.set"],
        actor="command",
    )
    planned = erasures.plan(bob, scope="subject", reason="test", actor="operator:x")
    graves.bury_values(ann, [("note", "She likes to sit by the window.")])
    receipt = receipts.issue_receipt(
        graves.make_erasure(cid, verification=FOUND_NOTHING)
    )
    return {
        "subject": str(ann.id),
        "hold": str(held.id),
        "operator": str(member.id),
        "webhook": str(webhook.id),
        "erasure": str(planned.id),
        "receipt": str(receipt.id),
        "tombstone": str(Tombstone.objects.get(kind="value").id),
    }


def _remember(agent: Agent) -> None:
    """Write all kinds of working memory, and a change after a checkpoint."""
    memory_acts.set_key(agent, "seat", "12A")
    memory_acts.take(agent, "before")
    memory_acts.set_key(agent, "seat", "14C")
    memory_acts.add_notes(agent, "It was a mistake.")
    memory_acts.set_task(agent, status="running")
    marks.mark_for_operator(factories.get_thread(agent), 1, "good", actor="operator:x")

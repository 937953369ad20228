from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from inspector.forget.audit import SCREEN
from inspector.web.looks import DEFAULT_PURPOSE
from inspector.web.search import AUDIT, asked
from memoryhub.journal.audit import PURPOSES
from memoryhub.models.keys import Passkey
from memoryhub.queries.access.audit import Line, Verdict
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import ANN, LONG_NAME, NOW, OWNER, PROJECT

LINE = Line(
    seq=4_711,
    at=NOW,
    project=PROJECT.id,
    actor_kind="operator",
    actor_ref=str(ANN.id),
    actor_name=ANN.username,
    action="content.read",
    purpose="support",
    target_kind="thread",
    target_id=str(UUID(int=3)),
    target_name="ticket-4711",
    subject="00c0ffee00c0ffee",
    outcome="done",
    count=0,
    route="p/<project:project>/threads/<name:thread>",
    first_seq=1,
    last_seq=1_204,
    request_id=None,
    hash="ab" * 32,
)
BARE = replace(
    LINE,
    actor_kind="command",
    actor_ref="",
    actor_name="",
    action="verified",
    purpose=None,
    target_kind=None,
    target_id=None,
    target_name="",
    subject=None,
    route=None,
    first_seq=None,
    last_seq=None,
    outcome="failed",
)
GONE = replace(LINE, actor_name="", target_name="", outcome="opened", first_seq=None)
FORGOTTEN = replace(GONE, action="erasure.complete", target_kind="erasure")
ABOUT = replace(GONE, action="subject.looked_up", target_kind="subject")
PROVED = replace(GONE, action="subject.exported", target_kind="receipt")
COLLEAGUE = replace(LINE, action="role.changed", target_kind="operator")
LONG = replace(LINE, actor_name=LONG_NAME, target_name=LONG_NAME)
LINES = {
    "a look at a thread": {"line": LINE, "place": OWNER},
    "a command": {"line": BARE, "place": OWNER},
    "neither is there any more": {"line": GONE, "place": OWNER},
    "an erasure": {"line": FORGOTTEN, "place": OWNER},
    "a subject": {"line": ABOUT, "place": OWNER},
    "a receipt": {"line": PROVED, "place": OWNER},
    "an operator": {"line": COLLEAGUE, "place": OWNER},
    "long names": {"line": LONG, "place": OWNER},
}


def _passkeys() -> list[Passkey]:
    phone = Passkey(id=UUID(int=5), name="Phone", host="hub.example.org")
    return [phone, Passkey(id=UUID(int=6), name="K" * 40, host="a.b", used_at=NOW)]


PATTERNS = (
    Pattern(template="inspector/forget/audit/_row.html", states=LINES, frame="sources"),
    Pattern(template="inspector/forget/audit/_facts.html", states=LINES),
    Pattern(
        template="inspector/forget/audit/_actor.html",
        states={
            "an operator": {"line": LINE, "place": OWNER},
            "a long name": {"line": LONG, "place": OWNER},
            "who is there no more": {"line": GONE, "place": OWNER},
            "a command": {"line": BARE, "place": OWNER},
        },
    ),
    Pattern(template="inspector/forget/audit/_target.html", states=LINES),
    Pattern(
        template="inspector/forget/audit/_filters.html",
        states={
            "a search": {
                "asked": asked("content.read", AUDIT, bare="action"),
                "examples": SCREEN.examples,
                "place": OWNER,
            }
        },
    ),
    Pattern(template="inspector/forget/audit/_grammar.html", states={"": {}}),
    Pattern(
        template="inspector/forget/audit/_verdict.html",
        states={
            "whole": {"verdict": Verdict(verified_to=4_711)},
            "the newest": {"verdict": Verdict(verified_to=4_711, verified_from=3_711)},
            "broken": {"verdict": Verdict(verified_to=17, wrong=18)},
        },
    ),
    Pattern(
        template="inspector/access/sign_in/_purpose.html",
        states={
            "as it is proposed": {"purposes": PURPOSES, "purpose": DEFAULT_PURPOSE}
        },
    ),
    Pattern(
        template="inspector/access/second_factor/_passkeys.html",
        states={
            "several": {"passkeys": _passkeys(), "named": True},
            "none, by an address": {"passkeys": [], "named": False},
        },
    ),
)

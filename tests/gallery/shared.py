from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from django.contrib.auth.models import AnonymousUser

from inspector.drawing.chat import Block
from inspector.drawing.hidden import pieces
from inspector.web.asof import AsOf
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import (
    ANN,
    HOST,
    HOSTILE,
    NOW,
    OWNER,
    PROVED,
    THREADS,
    VIEWER,
    Context,
)


def bar(*, user: object, **more: object) -> Context:
    """Who asks is part of the sample, not who looks at it."""
    request = SimpleNamespace(user=user)
    return {"request": request, "here": THREADS, "query": "", "csrf_token": "", **more}


def error(status: int, code: str, title: str, message: str) -> Context:
    said = {"title": title, "status": status, "code": code, "message": message}
    return {**said, "panel": "sample"}


def moved(*, beyond: bool = False) -> Context:
    seq = 1_204 if beyond else 40
    there = AsOf(seq=seq, head=1_204, live=False, beyond=beyond)
    return {"moved": there, "newer": 1_204 - seq, "search": ""}


SHORT = Block(kind="json", text='{\n  "seq": 2\n}')
LONG = Block(kind="json", text='{\n  "content": "' + "x" * 2_000, cut=70_000)

UNPROVED = replace(PROVED, receipt=None)

PATTERNS = (
    Pattern(
        template="inspector/shared/_bar.html",
        states={
            "in a project": bar(user=ANN, place=OWNER, socket=True),
            "searched, not live": bar(
                user=ANN, place=VIEWER, socket=False, query="status:open"
            ),
            "outside of any project": bar(user=ANN, place=None, socket=False),
            "signed out": bar(user=AnonymousUser(), place=None, socket=False),
        },
    ),
    Pattern(
        template="inspector/shared/_nav.html",
        states={
            "for an owner": {"place": OWNER, "section": "threads"},
            "for a viewer": {"place": VIEWER, "section": "health"},
        },
    ),
    Pattern(
        template="inspector/shared/_error.html",
        states={
            "nothing here": error(
                404, "not_found", "Nothing here", "There is no such thing."
            ),
            "erased": error(410, "subject_erased", "Erased", "The person was erased."),
            "signed out": error(401, "signed_out", "Refused", "You are signed out."),
            "the database is away": error(
                503, "unavailable", "Away for a moment", "It does not answer."
            ),
        },
    ),
    Pattern(
        template="inspector/shared/_moved.html",
        states={"as of an event": moved(), "beyond the newest": moved(beyond=True)},
    ),
    Pattern(
        template="inspector/shared/_raw.html",
        states={
            "short": {"raw": SHORT, "title": "Raw"},
            "cut": {"raw": LONG, "title": "Raw, with the payload"},
        },
    ),
    Pattern(
        template="inspector/shared/_call.html",
        states={"always": {"host": HOST, "path": "threads/ticket-4711/events"}},
    ),
    Pattern(
        template="inspector/shared/_erased.html",
        states={
            "expired, or nobody wished it": {"proof": None, "place": OWNER},
            "for an officer": {"proof": PROVED, "place": OWNER},
            "for a viewer": {"proof": PROVED, "place": VIEWER},
            "before the receipt": {"proof": UNPROVED, "place": OWNER},
            "for a viewer, before the receipt": {"proof": UNPROVED, "place": VIEWER},
        },
    ),
    Pattern(
        template="inspector/shared/_text.html",
        states={
            "plain": {"pieces": pieces("Where is my parcel?")},
            "characters that are not seen, and markup": {
                "pieces": pieces(str(HOSTILE.content))
            },
        },
        frame="text",
    ),
    Pattern(template="inspector/shared/_time.html", states={"always": {"at": NOW}}),
    Pattern(
        template="inspector/shared/_sheet.html", states={"opened by the button ?": {}}
    ),
)

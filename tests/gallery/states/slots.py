from __future__ import annotations

from inspector.drawing.chat import Block
from inspector.web.asof import AsOf
from memoryhub.queries.threads.slots import SlotFilter, SlotLine
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import (
    BASE,
    CALL,
    CUT,
    EMPTY,
    ERASED,
    HOSTILE,
    INHERITED,
    OTHER,
    OWNER,
    PROMPT,
    PROVED,
    RESULT,
    SILENT,
    TALL,
    THREADS,
    USER,
    Context,
    bubble,
    of_thread,
)

LIVE = AsOf(seq=1_204, head=1_204, live=True)
PAUSED = AsOf(seq=40, head=1_204, live=False)


def said(slot: SlotLine, *, chosen: int | None = None, **more: object) -> Context:
    around: Context = {"base": BASE, "chosen": chosen, "proofs": {}, "place": OWNER}
    return {"bubble": bubble(slot), **around, **more}


def block(**fields: object) -> Context:
    whole = {"kind": "text", "text": "Let me look.", **fields}
    return {"block": Block(**whole), "slot": USER, "base": BASE}  # type: ignore[arg-type]  # fields of a block


def facts(slot: SlotLine, *, home: str = "") -> Context:
    return {"slot": slot, "base": BASE, "threads": THREADS, "home": home}


PATTERNS = (
    Pattern(
        template="inspector/threads/slots/_bubble.html",
        states={
            "a person": said(USER),
            "the agent, with a call and other fields": said(CALL),
            "a tool's result": said(RESULT),
            "a long prompt": said(PROMPT),
            "JSON of no role": said(OTHER),
            "the one jumped to": said(USER, chosen=0),
            "inherited by a fork": said(INHERITED),
            "characters that are not seen, and markup": said(HOSTILE),
            "so tall that it scrolls": said(TALL),
            "cut": said(CUT),
            "nothing said": said(SILENT),
            "null": said(EMPTY),
            "expired": said(ERASED),
            "erased": said(ERASED, proofs={0: PROVED}),
        },
    ),
    Pattern(
        template="inspector/threads/slots/_block.html",
        states={
            "text": block(),
            "a call": block(
                kind="call", title="find", hint="1 field", text='{\n  "no": "PX-7"\n}'
            ),
            "a result, folded": block(
                kind="result", title="find", hint="2 fields", folded=True
            ),
            "JSON": block(kind="json", title="content", text='["a", 1]'),
            "cut": block(text="x" * 400, cut=70_000),
        },
        frame="bubble",
    ),
    Pattern(
        template="inspector/threads/slots/_facts.html",
        states={
            "a message": facts(USER),
            "with the agent's clock and handler": facts(CALL),
            "of no role": facts(OTHER),
            "inherited": facts(INHERITED, home="ticket-4000"),
        },
    ),
    Pattern(
        template="inspector/threads/slots/_filters.html",
        states={
            "nothing asked": of_thread(
                where=SlotFilter(), total=812, chosen=None, moved=LIVE, filters=""
            ),
            "narrowed, as of an event": of_thread(
                where=SlotFilter(type="chat.tool", from_name="tool", turn=3),
                total=40,
                chosen=12,
                moved=PAUSED,
                filters="type=chat.tool",
                live=False,
            ),
        },
    ),
)

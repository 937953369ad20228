"""Terms of the kernel, each in one plain sentence, for hovers and for a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.web import shell

#: Terms by topic; docs/concepts.md has the same sentences.
GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "What a thread is made of": {
        "thread": "A memory of its own, named by the agent, with one journal of "
        "events.",
        "event": "A change of a thread, recorded for good.",
        "seq": "An event's number in its thread: 1, 2, 3 …; 0 and below for what a "
        "fork inherits.",
        "slot": "A message of a thread at its index, 0, 1, 2 …; never changed.",
        "turn": "One model call.",
        "episode": "An exchange as it is found again: what the user said, and what "
        "followed until it spoke again.",
        "exchange": "From a user's message to the agent's final answer; may take "
        "several turns.",
        "fork": "A thread that goes on from an event of another thread; it shows what "
        "came before, too.",
        "subject": "The person that a memory is about.",
        "operator": "A person who signs in to the inspector.",
        "API key": "A secret that admits an agent to one project.",
        "webhook": "An address to which the server sends events as they happen.",
        "alert": "A notice to operators that a check is not well.",
        "import": "The reading of memory that another system exported.",
        "agent": "A program that reads and writes memory with an API key.",
    },
    "What the model sees": {
        "page": "The unit of memory: a message, or a text that an agent made.",
        "level": "The fidelity of a page: 0 full, 1 reduced, 2 abstract, 3 reference.",
        "frame": "The place of a page in the working set, with the level shown there.",
        "working set": "The pages that stand in the model's context.",
        "L0": "The pages that stand in the model's context.",
        "L1": "Pages that have just left the working set, or had no room in it.",
        "hot list": "Pages that have just left the working set, or had no room in it.",
        "L2": "The page table: every page of the thread.",
        "TLB": "The page-table entries that were looked up last.",
        "manifest": "The list of pages that the model may fetch, each with a hint.",
        "hint": "A few words by the agent on what a page is about.",
        "budget": "The tokens that a request may have, with those reserved for the "
        "answer.",
        "prefix": "The beginning that a request shares with the request before; "
        "providers can cache it.",
        "recorded context": "The parts of a turn's request, by reference, and its "
        "hash.",
    },
    "What leaves, stays and comes back": {
        "eviction": "Removal of a page from the working set, to make room.",
        "lowering": "The replacement of a page in the working set by a shorter form of "
        "it.",
        "keep score": "The number by which pages leave: the lowest first.",
        "pin": "The protection of a page from eviction; a command sets it, or a rule "
        "computes it.",
        "pin share": "The share of the usable tokens that pinned pages may hold "
        "together.",
        "protected": "A page that was fetched or came back lately: it leaves after "
        "unprotected pages.",
        "fault": "A request of the model for a page that its context does not hold.",
        "refault": "A fault on a page that left or came back within the last five "
        "turns.",
        "recall": "Earlier texts that a turn adds to its request unasked: they match "
        "the message, or are often used.",
        "lacking turn": "A turn whose request lacked the best match for its question.",
        "marked turn": "A turn whose answer somebody marked as wrong or as right.",
        "citation": "A page id that the model's answer names as [ref: id]: the page "
        "was used.",
        "recall success": "Of the rated turns for which memory brought a page, the "
        "share whose answer was not corrected.",
        "effective tokens": "Tokens of cited pages ÷ tokens of the requests whose "
        "answers cite, in the last 20 turns.",
        "observation": "Short dated lines that stand for a range of older messages.",
        "observer": "The worker that asks a model to write observations.",
        "reflection": "A condensed log, made when the log has grown too long.",
        "prefetch": "Pages that a turn adds unasked because they are usually read "
        "before the tools called last.",
        "thrashing": "Pages come back as soon as they leave: three refaults or more in "
        "the last five turns.",
        "resident rate": "The share of the last 20 exchanges in which the model had to "
        "fetch nothing.",
        "TLB hit rate": "The share of look-ups that were answered without the page "
        "table.",
    },
    "Calls of the agent's tools": {
        "own tools": "The agent's tools, which its model may call besides ours.",
        "guard": "The rules that check a call of an agent's own tool before the call "
        "runs.",
        "verdict": "What a guard says of a call: allow, warn, repair or block.",
        "binding": "A call's result under a name such as $v1, which later calls can "
        "use.",
        "procedure": "A page of what the calls of one tool have taught: errors with "
        "their fixes, and arguments that worked.",
        "fix": "The difference between a failed call and the later success that "
        "reached the same goal.",
    },
    "Working memory": {
        "key": "A value under a name, until it is deleted or expires.",
        "task": "The agent's current job and its progress; one per thread.",
        "note": "A line an agent wrote for itself.",
        "scratchpad": "The notes of a thread that are current; beyond the most notes "
        "that the thread keeps, the oldest leave it. In Memory, Notes.",
        "checkpoint": "A saved point of working memory and working set, to return to.",
        "restore": "The return to a checkpoint; a restore of another checkpoint undoes "
        "it.",
    },
    "What is known of a person": {
        "fact": "A run of one value in a timeline, derived on reading from the "
        "assertions that count.",
        "assertion": "A statement about a person as it was recorded: entity, "
        "predicate, value, and when it is said to hold; never changed.",
        "retraction": "Takes assertions out of what counts; as wrong it keeps models "
        "from asserting that value again.",
        "timeline": "All that is asserted of one entity by one predicate, however they "
        "are spelled.",
        "block": "A short text about a person that each request of the person's "
        "threads carries.",
        "item": "Data of a person in JSON, by namespace and key; a key of the home "
        "thread.",
        "home thread": "The thread mh.home.<subject id>, which holds a person's "
        "blocks, facts and items.",
    },
    "Forgetting": {
        "erasure": "One request to forget, from its plan to its receipt.",
        "receipt": "What an erasure did, signed.",
        "plan": "The records that an erasure would take, counted beforehand.",
        "fence": "The moment from which the server refuses everything in an erasure's "
        "scope.",
        "tombstone": "A keyed digest of what was erased and must not come back.",
        "hold": "A legal duty to keep a person's memory; until it ends, the server "
        "erases nothing of the person.",
        "restriction": "A stop that keeps agents out of a person's memory.",
        "retention": "The rule by which the server erases threads that were idle for "
        "too long.",
        "audit log": "Who did what to whose memory, in closed words, in one chain.",
        "purpose": "The reason to look at content; chosen at sign-in, kept in the "
        "audit log.",
    },
}
WORDS: Final[Mapping[str, str]] = {
    word: sentence for group in GROUPS.values() for word, sentence in group.items()
}


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show the keyboard shortcuts, and every term with its sentence."""
    visitor = access.require_visitor(request, project)
    groups = [(title, [*group.items()]) for title, group in GROUPS.items()]
    return shell.render_page(
        request,
        "inspector/words/show.html",
        {"groups": groups},
        visitor=visitor,
        section="words",
    )

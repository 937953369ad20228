from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import signed_in
from inspector.drawing import chat
from inspector.drawing.hidden import typed
from inspector.lists import visits
from inspector.memory import editing, typed_json
from inspector.memory import keys as key_pages
from inspector.web import refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, KeyNotFoundError, Refusal, StaleError
from memoryhub.journal import Receipt
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.models.projects import MOST_TTL_SECONDS
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import keys
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.services.memory import operator_memory

_TEXTS: refusals.Texts = {
    StaleError: "This key has changed since you looked. Here it is as it is now.",
    "key": "A name has 1 to 128 letters, digits and . _ : @ - and begins with a "
    "letter or digit; names that begin with mh. are kept for MemoryHub.",
    "expiry_in_past": "The time it had is over. Choose for how long it is to last.",
    "expiry": "A key lasts from 1 second to 365 days, or for ever.",
}
_GONE = "There is nothing to change: the key went meanwhile."
_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
#: A name is never longer.
_LONGEST = 128
#: What a form sets for a key when it is not to expire, and how it comes.
_NEVER, _LASTING, _SAME = "never", "ttl", "same"


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def act(
    request: HttpRequest, project: str, thread: str, key: str, verb: str
) -> HttpResponse:
    """Set, retime or delete a key, as long as it is what the form showed."""
    visitor, row = editing.find(request, project, thread)
    do = VERBS.get(verb)
    if do is None:
        raise Http404
    problem: Refusal | None = None
    if request.method == "POST":
        try:
            receipt = do(row, key, request.POST, visitor.actor)
        except KeyNotFoundError:
            return _gone(request, project, thread, key)
        except Refusal as refusal:
            if refusals.status_of(refusal) in (404, 410):
                raise
            problem = refusal
        else:
            names = {"project": project, "thread": thread, "key": key}
            return editing.show_saved("key", receipt, **names)
        # By now the head is another one.
        _, row = editing.find(request, project, thread)
    try:
        line = _line(row, key, gone=problem is not None and verb == "set")
    except KeyNotFoundError:
        return _gone(request, project, thread, key)
    return _form(request, visitor, row, verb=verb, key=key, line=line, problem=problem)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def add(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Set a key that is not there yet."""
    visitor, row = editing.find(request, project, thread)
    sent = request.POST if request.method == "POST" else request.GET
    key, problem = sent.get("key", "").strip()[:_LONGEST], None
    if request.method == "POST":
        text = request.POST.get("value", "").encode()
        try:
            receipt = operator_memory.set_key(
                row, key, text, _expiry(request.POST), version=None, actor=visitor.actor
            )
        except Refusal as refusal:
            problem = refusal
        else:
            names = {"project": project, "thread": thread, "key": key}
            return editing.show_saved("key", receipt, **names)
    return _form(request, visitor, row, verb="add", key=key, line=None, problem=problem)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def clear(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Remove all keys, wherever the agent is by then; a checkpoint keeps them."""
    visitor, row = editing.find(request, project, thread)
    problem: Refusal | None = None
    if request.method == "POST":
        try:
            kept = operator_memory.clear_keys(row, actor=visitor.actor)
        except Refusal as refusal:
            problem = refusal
        else:
            where = reverse("keys", kwargs={"project": project, "thread": thread})
            query = f"?kept={kept.events[-1].seq}" if kept else ""
            return HttpResponseRedirect(f"{where}{query}")
    return visits.thread_page(
        request,
        "inspector/memory/keys/clear.html",
        visitor,
        row,
        {"count": keys.count_keys(row), "problem": refusals.error_text(problem)},
        status=refusals.status_of(problem),
    )


def _set(row: Thread, key: str, sent: QueryDict, actor: str) -> Receipt:
    """Give it the value that was typed, or the one that it had as of `from`."""
    version, then = editing.version_of(sent), sent.get("from")
    expiry = _kept(row, key, then) if sent.get("expiry") == _SAME else _expiry(sent)
    if then is not None:
        return operator_memory.set_key_back(
            row, key, _seq(row, then), expiry, version=version, actor=actor
        )
    text = sent.get("value", "").encode()
    return operator_memory.set_key(row, key, text, expiry, version=version, actor=actor)


def _retime(row: Thread, key: str, sent: QueryDict, actor: str) -> Receipt:
    version, expiry = _version(sent), _expiry(sent)
    return operator_memory.retime_key(row, key, expiry, version=version, actor=actor)


def _delete(row: Thread, key: str, sent: QueryDict, actor: str) -> Receipt:
    return operator_memory.delete_key(row, key, version=_version(sent), actor=actor)


Act = Callable[[Thread, str, QueryDict, str], Receipt]
VERBS: dict[str, Act] = {"set": _set, "retime": _retime, "delete": _delete}


def _version(sent: QueryDict) -> int:
    """Read the version of a key that was there. Raises StaleError."""
    version = editing.version_of(sent)
    if version is None:
        raise StaleError
    return version


def _seq(row: Thread, text: str) -> int:
    """Read an event of the thread. Raises InvalidError."""
    plain = text.isascii() and text.isdigit() and len(text) <= 18
    if not plain or int(text) > row.head_seq:
        raise InvalidError(loc="from")
    return int(text)


def _kept(row: Thread, key: str, then: str | None) -> Expiry:
    """Keep the expiry that the key has; one that is not there, the one it had then."""
    try:
        line = keys.get_key(row, key, content=False)
    except KeyNotFoundError:
        if then is None:
            raise StaleError from None
        line = keys.get_key(row, key, seq=_seq(row, then), content=False)
    return Expiry(given=True, at=line.expires_at)


def _expiry(sent: QueryDict) -> Expiry:
    """For how long, as the form says. Raises InvalidError."""
    word = sent.get("expiry", "")
    if word == _NEVER:
        return Expiry(given=True)
    count, unit = sent.get("count", ""), _UNITS.get(sent.get("unit", ""))
    plain = count.isascii() and count.isdigit() and len(count) <= 9
    if word != _LASTING or unit is None or not plain:
        raise InvalidError(loc="expiry")
    seconds = int(count) * unit
    if not 1 <= seconds <= MOST_TTL_SECONDS:
        raise InvalidError(loc="expiry")
    return Expiry(given=True, ttl=timedelta(seconds=seconds))


def _line(row: Thread, key: str, *, gone: bool) -> KeyLine | None:
    """Find the key as it is now; None where it may be `gone`."""
    try:
        return keys.get_key(row, key)
    except KeyNotFoundError:
        if gone:
            return None
        raise


def _gone(request: HttpRequest, project: str, thread: str, key: str) -> HttpResponse:
    """Show the page of a key that somebody took away meanwhile.

    Raises KeyNotFoundError for one that never was.
    """
    visit = visits.find(request, project, thread)
    return key_pages.page(request, visit, key, problem=_GONE, status=404)


def _form(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    *,
    verb: str,
    key: str,
    line: KeyLine | None,
    problem: Refusal | None,
) -> HttpResponse:
    sent = request.POST if request.method == "POST" else QueryDict()
    return visits.thread_page(
        request,
        "inspector/memory/keys/act.html",
        visitor,
        row,
        _filled(sent, row, verb=verb, key=key, line=line, problem=problem),
        status=refusals.status_of(problem),
    )


def _filled(
    sent: QueryDict,
    row: Thread,
    *,
    verb: str,
    key: str,
    line: KeyLine | None,
    problem: Refusal | None,
) -> dict[str, Any]:
    value = typed(chat.pretty(line.value)) if line else ""
    moved = isinstance(problem, StaleError) and verb == "set"
    return {
        **_lasting(sent, verb=verb, there=line is not None),
        "line": line,
        "name": key,
        "verb": verb,
        "version": line.version if line else editing.NONE,
        "text": sent.get("value", _then(row, key, sent) or value),
        # What stands there now, when somebody else wrote it meanwhile.
        "other": value if moved else "",
        "problem": _error_text(problem, sent.get("value", "")),
        "code": problem.code if problem else "",
    }


def _then(row: Thread, key: str, sent: QueryDict) -> str:
    """Write the value that the key was to be set back to; empty where none was."""
    then = sent.get("from")
    if then is None:
        return ""
    return typed(chat.pretty(keys.get_key(row, key, seq=_seq(row, then)).value))


def _lasting(sent: QueryDict, *, verb: str, there: bool) -> dict[str, Any]:
    """The fields of an expiry as they were sent, or as they stand at first."""
    first = _SAME if verb == "set" else _NEVER if verb == "add" else _LASTING
    chosen = sent.get("expiry", first)
    return {
        "chosen": _NEVER if chosen == _SAME and not there else chosen,
        "count": sent.get("count", "1"),
        "unit": sent.get("unit", "h"),
        "units": tuple(_UNITS),
    }


def _error_text(problem: Refusal | None, text: str) -> str:
    if isinstance(problem, JsonRefusedError):
        return typed_json.error_text(problem, text)
    return refusals.error_text(problem, _TEXTS, numbers=True)

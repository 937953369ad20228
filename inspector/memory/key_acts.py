from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.drawing import chat
from inspector.drawing.hidden import escape_hidden
from inspector.lists import visits
from inspector.memory import editing, typed_json
from inspector.memory import keys as key_pages
from inspector.web import refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, KeyNotFoundError, Refusal, StaleError
from memoryhub.journal import OrderReceipt
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
    "letter or digit; names that begin with mh. are reserved. In a home thread it is "
    "an item's: labels and a key, joined with colons.",
    "expiry_in_past": "The time it had is over. Choose for how long it is to last.",
    "expiry": "A key lasts from 1 second to 365 days, or for ever.",
}
_GONE = "There is nothing to change: the key went meanwhile."
_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
#: Characters of a key's name.
_LONGEST = 128
#: Choices of expiry in a form: none, a time to live, or the present expiry.
_NEVER, _LASTING, _SAME = "never", "ttl", "same"


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def act(
    request: HttpRequest, project: str, thread: str, key: str, verb: str
) -> HttpResponse:
    """Set, retime or delete a key, if the key is still as the form showed it."""
    visitor, row = editing.require_editor(request, project, thread)
    do = VERBS.get(verb)
    if do is None:
        raise Http404
    problem: Refusal | None = None
    if request.method == "POST":
        try:
            receipt = do(row, key, request.POST, visitor.actor)
        except KeyNotFoundError:
            return _render_gone(request, project, thread, key)
        except Refusal as refusal:
            if refusals.get_status(refusal) in (404, 410):
                raise
            problem = refusal
        else:
            names = {"project": project, "thread": thread, "key": key}
            return editing.redirect_to_saved("key", receipt, **names)
        # The thread's head has moved by now.
        _, row = editing.require_editor(request, project, thread)
    try:
        line = _find_line(row, key, gone=problem is not None and verb == "set")
    except KeyNotFoundError:
        return _render_gone(request, project, thread, key)
    return _render_form(
        request, visitor, row, verb=verb, key=key, line=line, problem=problem
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def add(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Set a new key."""
    visitor, row = editing.require_editor(request, project, thread)
    sent = request.POST if request.method == "POST" else request.GET
    key, problem = sent.get("key", "").strip()[:_LONGEST], None
    if request.method == "POST":
        text = request.POST.get("value", "").encode()
        try:
            receipt = operator_memory.set_key(
                row,
                key,
                text,
                _parse_expiry(request.POST),
                version=None,
                actor=visitor.actor,
            )
        except Refusal as refusal:
            problem = refusal
        else:
            names = {"project": project, "thread": thread, "key": key}
            return editing.redirect_to_saved("key", receipt, **names)
    return _render_form(
        request, visitor, row, verb="add", key=key, line=None, problem=problem
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def clear(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Clear all keys, whatever the agent wrote meanwhile; a checkpoint keeps them."""
    visitor, row = editing.require_editor(request, project, thread)
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
    return visits.render_thread_page(
        request,
        "inspector/memory/keys/clear.html",
        visitor,
        row,
        {"count": keys.count_keys(row), "problem": refusals.get_error_text(problem)},
        status=refusals.get_status(problem),
    )


def _set_key(row: Thread, key: str, sent: QueryDict, actor: str) -> OrderReceipt:
    """Set a key to the typed value, or to the value that the key had as of `from`."""
    version, then = editing.parse_version(sent), sent.get("from")
    expiry = (
        _get_expiry(row, key, then)
        if sent.get("expiry") == _SAME
        else _parse_expiry(sent)
    )
    if then is not None:
        return operator_memory.revert_key(
            row, key, _parse_seq(row, then), expiry, version=version, actor=actor
        )
    text = sent.get("value", "").encode()
    return operator_memory.set_key(row, key, text, expiry, version=version, actor=actor)


def _retime_key(row: Thread, key: str, sent: QueryDict, actor: str) -> OrderReceipt:
    version, expiry = _require_version(sent), _parse_expiry(sent)
    return operator_memory.retime_key(row, key, expiry, version=version, actor=actor)


def _delete_key(row: Thread, key: str, sent: QueryDict, actor: str) -> OrderReceipt:
    return operator_memory.delete_key(
        row, key, version=_require_version(sent), actor=actor
    )


Act = Callable[[Thread, str, QueryDict, str], OrderReceipt]
VERBS: dict[str, Act] = {"set": _set_key, "retime": _retime_key, "delete": _delete_key}


def _require_version(sent: QueryDict) -> int:
    """Parse the version of an existing key. Raises StaleError."""
    version = editing.parse_version(sent)
    if version is None:
        raise StaleError
    return version


def _parse_seq(row: Thread, text: str) -> int:
    """Parse the seq of an event of the thread. Raises InvalidError."""
    plain = text.isascii() and text.isdigit() and len(text) <= 18
    if not plain or int(text) > row.head_seq:
        raise InvalidError(loc="from")
    return int(text)


def _get_expiry(row: Thread, key: str, then: str | None) -> Expiry:
    """Return the key's present expiry, or for a missing key its expiry as of `then`."""
    try:
        line = keys.get_key(row, key, content=False)
    except KeyNotFoundError:
        if then is None:
            raise StaleError from None
        line = keys.get_key(row, key, seq=_parse_seq(row, then), content=False)
    return Expiry(given=True, at=line.expires_at)


def _parse_expiry(sent: QueryDict) -> Expiry:
    """Parse the expiry that the form sets. Raises InvalidError."""
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


def _find_line(row: Thread, key: str, *, gone: bool) -> KeyLine | None:
    """Return the key as it is now; None if the key is missing and `gone` is set."""
    try:
        return keys.get_key(row, key)
    except KeyNotFoundError:
        if gone:
            return None
        raise


def _render_gone(
    request: HttpRequest, project: str, thread: str, key: str
) -> HttpResponse:
    """Render the page of a key that somebody deleted meanwhile.

    Raises KeyNotFoundError for a key that never existed.
    """
    visit = visits.find(request, project, thread)
    return key_pages.render_page(request, visit, key, problem=_GONE, status=404)


def _render_form(
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
    return visits.render_thread_page(
        request,
        "inspector/memory/keys/act.html",
        visitor,
        row,
        _build_form(sent, row, verb=verb, key=key, line=line, problem=problem),
        status=refusals.get_status(problem),
    )


def _build_form(
    sent: QueryDict,
    row: Thread,
    *,
    verb: str,
    key: str,
    line: KeyLine | None,
    problem: Refusal | None,
) -> dict[str, Any]:
    value = escape_hidden(chat.render_json(line.value)) if line else ""
    moved = isinstance(problem, StaleError) and verb == "set"
    return {
        **_build_expiry_fields(sent, verb=verb, there=line is not None),
        "line": line,
        "name": key,
        "verb": verb,
        "version": line.version if line else editing.NONE,
        "text": sent.get("value", _render_former_value(row, key, sent) or value),
        # The present value, if somebody else wrote the key meanwhile.
        "other": value if moved else "",
        "problem": _describe_error(problem, sent.get("value", "")),
        "code": problem.code if problem else "",
    }


def _render_former_value(row: Thread, key: str, sent: QueryDict) -> str:
    """Render the value as of `from`, for the form to propose; empty without `from`."""
    then = sent.get("from")
    if then is None:
        return ""
    return escape_hidden(
        chat.render_json(keys.get_key(row, key, seq=_parse_seq(row, then)).value)
    )


def _build_expiry_fields(sent: QueryDict, *, verb: str, there: bool) -> dict[str, Any]:
    """Build the form's expiry fields: as sent, or their first values."""
    first = _SAME if verb == "set" else _NEVER if verb == "add" else _LASTING
    chosen = sent.get("expiry", first)
    return {
        "chosen": _NEVER if chosen == _SAME and not there else chosen,
        "count": sent.get("count", "1"),
        "unit": sent.get("unit", "h"),
        "units": tuple(_UNITS),
    }


def _describe_error(problem: Refusal | None, text: str) -> str:
    if isinstance(problem, JsonRefusedError):
        return typed_json.describe_error(problem, text)
    return refusals.get_error_text(problem, _TEXTS, numbers=True)

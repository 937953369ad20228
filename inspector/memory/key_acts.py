from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import chat
from inspector.drawing.hidden import typed
from inspector.drawing.scenes import Scene
from inspector.lists import panels
from inspector.web import refusals, shell
from inspector.web.places import Place
from memoryhub.errors import InvalidError, Refusal, StaleError
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.models.access.operators import Membership
from memoryhub.models.projects import MOST_TTL_SECONDS
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import keys
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.services.memory import operator_memory

_MOVED = "This key has changed since you looked. Here it is as it is now."
_VERSION = re.compile(r"0|-?[1-9][0-9]{0,17}")
_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
#: What a form sets for a key when it is not to expire, and how it comes.
_NEVER, _LASTING, _SAME = "never", "ttl", "same"


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def act(
    request: HttpRequest, project: str, thread: str, key: str, verb: str
) -> HttpResponse:
    """Set, retime or delete a key, as long as it is what the form showed."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    do = VERBS.get(verb)
    if do is None:
        raise Http404
    place.require(Membership.Role.EDITOR)
    problem: Refusal | None = None
    if request.method == "POST":
        try:
            do(row, key, request.POST, place.actor)
            return HttpResponseRedirect(_done(project, thread, key, verb))
        except Refusal as refusal:
            if refusals.status_of(refusal) in (404, 410):
                raise
            problem = refusal
        # By now the head is another one.
        row = access.find_thread(place, thread)
    line = keys.get_key(row, key)
    return _form(request, place, row, verb=verb, line=line, problem=problem)


def _set(row: Thread, key: str, sent: QueryDict, actor: str) -> None:
    version, text = _version(sent), sent.get("value", "")
    expiry = _expiry(sent)
    if sent.get("expiry") == _SAME:
        expiry = Expiry(said=True, at=keys.get_key(row, key, content=False).expires_at)
    operator_memory.set_key(
        row, key, text.encode(), expiry, version=version, actor=actor
    )


def _retime(row: Thread, key: str, sent: QueryDict, actor: str) -> None:
    expiry = _expiry(sent)
    operator_memory.retime_key(row, key, expiry, version=_version(sent), actor=actor)


def _delete(row: Thread, key: str, sent: QueryDict, actor: str) -> None:
    operator_memory.delete_key(row, key, version=_version(sent), actor=actor)


Act = Callable[[Thread, str, QueryDict, str], None]
VERBS: dict[str, Act] = {"set": _set, "retime": _retime, "delete": _delete}


def _done(project: str, thread: str, key: str, verb: str) -> str:
    names = {"project": project, "thread": thread}
    if verb == "delete":
        return reverse("keys", kwargs=names)
    return reverse("key", kwargs={**names, "key": key})


def _version(sent: QueryDict) -> int:
    """The version that the form showed. Without one nothing fits."""
    text = sent.get("version", "")
    if not _VERSION.fullmatch(text):
        raise StaleError
    return int(text)


def _expiry(sent: QueryDict) -> Expiry:
    """For how long, as the form says. Raises InvalidError."""
    word = sent.get("expiry", "")
    if word in (_NEVER, _SAME):
        return Expiry(said=True)
    count, unit = sent.get("count", ""), _UNITS.get(sent.get("unit", ""))
    plain = count.isascii() and count.isdigit() and len(count) <= 9
    if word != _LASTING or unit is None or not plain:
        raise InvalidError(loc="expiry")
    seconds = int(count) * unit
    if not 1 <= seconds <= MOST_TTL_SECONDS:
        raise InvalidError(loc="expiry")
    return Expiry(said=True, ttl=timedelta(seconds=seconds))


def _form(
    request: HttpRequest,
    place: Place,
    row: Thread,
    *,
    verb: str,
    line: KeyLine,
    problem: Refusal | None,
) -> HttpResponse:
    sent = request.POST if request.method == "POST" else QueryDict()
    value = typed(chat.pretty(line.value))
    moved = isinstance(problem, StaleError) and verb == "set"
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row)),
        **_lasting(sent, _SAME if verb == "set" else _LASTING),
        "line": line,
        "verb": verb,
        "text": sent.get("value", value),
        # What stands there now, when somebody else wrote it meanwhile.
        "other": value if moved else "",
        "problem": _said(problem),
    }
    return shell.page(
        request,
        "inspector/memory/keys/act.html",
        context,
        place=place,
        section="threads",
        status=refusals.status_of(problem) if problem else 200,
    )


def _lasting(sent: QueryDict, chosen: str) -> dict[str, Any]:
    """The fields of an expiry as they were sent, or as they stand at first."""
    return {
        "chosen": sent.get("expiry", chosen),
        "count": sent.get("count", "1"),
        "unit": sent.get("unit", "h"),
        "units": tuple(_UNITS),
    }


def _said(problem: Refusal | None) -> str:
    if problem is None:
        return ""
    if isinstance(problem, StaleError):
        return _MOVED
    if isinstance(problem, JsonRefusedError):
        at = "" if problem.offset is None else f" at byte {problem.offset:,}"
        return f"This is no JSON that can be kept: {problem.code}{at}."
    if isinstance(problem, InvalidError):
        return "A key lasts from 1 second to 365 days, or for ever."
    return problem.sentence

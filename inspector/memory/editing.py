"""What the forms of working memory share: who edits, and what an edit led to."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import QueryDict
from django.urls import reverse

from inspector.access import access
from inspector.lists.visits import Visit
from inspector.web import asof
from inspector.web.visitors import Visitor
from memoryhub.errors import StaleError, ThreadClosedError
from memoryhub.journal import Receipt
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import edits
from memoryhub.queries.threads.edits import Edit

_VERSION = re.compile(r"0|-?[1-9][0-9]{0,17}")
#: What a form has for a version where it showed that there is nothing.
NONE = "none"


def find(request: HttpRequest, project: str, thread: str) -> tuple[Visitor, Thread]:
    """Find who edits, and which thread. Two queries.

    Raises RoleError, and ThreadClosedError for a form that could not be sent.
    """
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    visitor.require(Membership.Role.EDITOR)
    if request.method != "POST" and row.status == "closed":
        raise ThreadClosedError
    return visitor, row


def version_of(sent: QueryDict) -> int | None:
    """Read the version that the form showed; None: there was none.

    Raises StaleError without a word of it, for then nothing fits.
    """
    text = sent.get("version", "")
    if text == NONE:
        return None
    if not _VERSION.fullmatch(text):
        raise StaleError
    return int(text)


def show_saved(route: str, receipt: Receipt | None, **names: str) -> HttpResponse:
    """Go to the page of what was edited, which says so and offers to undo it."""
    where = reverse(route, kwargs=names)
    if receipt is None or not receipt.events:
        return HttpResponseRedirect(where)
    query = urlencode({"saved": receipt.events[-1].seq})
    return HttpResponseRedirect(f"{where}?{query}")


def find_saved(
    request: HttpRequest,
    visit: Visit,
    find: Callable[[Thread, int], Edit | None] = edits.find_edit,
) -> Edit | None:
    """Find the edit that the URL says was just saved, by the one who looks.

    No query where it says nothing. Raises InvalidError.
    """
    seq = asof.number(request, "saved")
    if seq is None or not visit.editable:
        return None
    edit = find(visit.row, seq)
    return edit if edit is not None and edit.actor == visit.visitor.actor else None

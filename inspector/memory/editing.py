"""Shared parts of the forms of working memory: the editor, and the saved edit."""

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
from memoryhub.journal import OrderReceipt
from memoryhub.models.access.operators import Membership
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import edits
from memoryhub.queries.threads.edits import Edit

_VERSION = re.compile(r"0|-?[1-9][0-9]{0,17}")
#: Version that a form sends where it showed no value.
NONE = "none"


def require_editor(
    request: HttpRequest, project: str, thread: str, *, reopens: bool = False
) -> tuple[Visitor, Thread]:
    """Return the editor and the thread. Two queries.

    Raises RoleError; ThreadClosedError for the form of a closed thread, unless sending
    the form `reopens` the thread.
    """
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    if request.method != "POST" and row.status == "closed" and not reopens:
        raise ThreadClosedError
    return visitor, row


def parse_version(sent: QueryDict) -> int | None:
    """Parse the version that the form showed; None if the form showed no value.

    Raises StaleError for a missing or malformed version.
    """
    text = sent.get("version", "")
    if text == NONE:
        return None
    if not _VERSION.fullmatch(text):
        raise StaleError
    return int(text)


def redirect_to_saved(
    route: str, receipt: OrderReceipt | None, **names: str
) -> HttpResponse:
    """Redirect to the page of the edited value, which offers to undo the edit."""
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
    """Find the edit that the URL names as just saved, if this visitor made the edit.

    No query without `saved` in the URL. Raises InvalidError.
    """
    seq = asof.read_number(request, "saved")
    if seq is None or not visit.editable:
        return None
    edit = find(visit.row, seq)
    return edit if edit is not None and edit.actor == visit.visitor.actor else None

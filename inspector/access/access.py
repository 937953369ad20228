from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Concatenate, ParamSpec, cast
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib.auth import logout
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import split_domain_port
from django.http.response import HttpResponseBase

from inspector.web import erased_page, read_audit, refusals, returns
from inspector.web.visitors import RoleError, Visitor
from memoryhub.errors import (
    NotFoundError,
    Refusal,
    SubjectErasedError,
    ThreadErasedError,
)
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.access import members
from memoryhub.queries.people import profiles
from memoryhub.queries.threads import threads
from memoryhub.services.access import second_factors

P = ParamSpec("P")

#: Hours after which a session ends: since its sign-in, and since its last page.
SESSION_HOURS, IDLE_HOURS = 12, 8
#: Idle minutes, off loopback, of operators who may erase and hand out keys.
IDLE_MINUTES_OFF_LOOPBACK = 30
#: Least time between two records of the last page; each writes the session.
_NOTED_EVERY = timedelta(minutes=1)
#: Authentication backend that every session records.
BACKEND = "inspector.access.backends.Password"
SIGNED_IN, SEEN, POWERFUL = "signed_in_at", "seen_at", "powerful"
_LOOPBACK = ("127.0.0.1", "::1")
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
#: Names of headers by which a proxy passes on a client's address. There are dozens,
#: and servers do not tell `_` from `-`.
_FORWARDED = re.compile(
    r"forward|client|prox|remote|addr|original|envoy|ip(v\d)?(-|$)"
    r"|(^|-)(real|via)(-|$)"
)


class SudoError(Exception):
    """Sign-in that is too old for an act of officers and owners."""


View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def require_signed_in(view: View[P]) -> View[P]:
    """Guard a page: send a visitor without a session to sign in, and back after it."""
    return _guard_view(view, panel=False)


def require_signed_in_panel(view: View[P]) -> View[P]:
    """Guard a panel: answer refusals as panels, never as a redirect."""
    return _guard_view(view, panel=True)


def _guard_view(view: View[P], *, panel: bool) -> View[P]:
    @wraps(view)
    def guard_request(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        try:
            # With a wrong clock an ended session would count as live.
            clock.require_true()
            if not _refresh_session(request):
                return (
                    refusals.render_signed_out(request)
                    if panel
                    else redirect_to_sign_in(request)
                )
            answer = view(request, *args, **kwargs)
            # Note the read before the first byte goes out: no note, no content.
            read_audit.note(request, answer)
        except Http404:
            return refusals.render_refusal(request, NotFoundError(), panel=panel)
        except RoleError as missing:
            return refusals.render_forbidden(request, missing.role, panel=panel)
        except SudoError:
            return redirect_to_sign_in(request, why="old")
        except (SubjectErasedError, ThreadErasedError) as gone:
            return _render_erased(request, gone, kwargs.get("project"), panel=panel)
        except Refusal as refusal:
            return refusals.render_refusal(request, refusal, panel=panel)
        else:
            return answer

    return guard_request


def _render_erased(
    request: HttpRequest, refusal: Refusal, project: object, *, panel: bool
) -> HttpResponse:
    """Show the page of an erased subject or thread to a visitor the view admitted."""
    if panel or not isinstance(project, str):
        return refusals.render_refusal(request, refusal, panel=panel)
    return erased_page.render_page(request, require_visitor(request, project), refusal)


def redirect_to_sign_in(request: HttpRequest, *, why: str = "") -> HttpResponse:
    # The browser can't send a form again after sign-in, but can open its page again.
    got = request.method in ("GET", "HEAD")
    back = request.get_full_path() if got else returns.find_page(request.path_info)
    query = {"next": back} | ({"why": why} if why else {})
    answer = HttpResponseRedirect(f"{settings.LOGIN_URL}?{urlencode(query)}")
    returns.remember_page(answer, back)
    return answer


def require_visitor(request: HttpRequest, project: str) -> Visitor:
    """Return the operator with their role in the project. 404 without. One query."""
    operator = get_operator(request)
    row = members.get_membership(project, operator)
    if row is None:
        raise Http404
    reading = read_audit.begin(request)
    visitor = Visitor(
        operator=operator, project=row.project, role=row.role, reading=reading
    )
    refusals.keep_visitor(request, visitor)
    return visitor


def require_owner(request: HttpRequest, project: str) -> Visitor:
    """Return the visitor of a page for owners. One query. Raises RoleError."""
    visitor = require_visitor(request, project)
    visitor.require_role(Membership.Role.OWNER)
    return visitor


def require_thread(visitor: Visitor, name: str) -> Thread:
    """Return the thread with its subject and project. One query.

    404 for a thread that is unknown or another project's; 410 once the thread or its
    subject is erased; 403 for a restricted subject unless the operator is an officer.
    """
    row = threads.get_thread(visitor.project.id, name)
    row.project = visitor.project
    _require_unrestricted(visitor, row.subject)
    visitor.note_threads([row])
    return row


def require_person(visitor: Visitor, subject: UUID) -> Subject:
    """Return the subject whose memory a page shows. One query.

    404 for a subject that is unknown or another project's; 410 once erased; 403 for a
    restricted subject unless the operator is an officer.
    """
    row = profiles.get_subject(visitor.project.id, subject)
    _require_unrestricted(visitor, row)
    return row


def _require_unrestricted(visitor: Visitor, subject: Subject) -> None:
    if subject.state == Subject.State.RESTRICTED:
        visitor.require_role(Membership.Role.OFFICER)


def require_recent_sign_in(request: HttpRequest, *, minutes: int | None = None) -> None:
    """Raise SudoError unless the sign-in is at most `minutes` (SUDO_MINUTES) old."""
    age = clock.now() - _read_time(request, SIGNED_IN)
    if age > timedelta(minutes=minutes or settings.SUDO_MINUTES):
        raise SudoError


def get_operator(request: HttpRequest) -> Operator:
    return cast("Operator", request.user)


def note_sign_in(request: HttpRequest, operator: Operator) -> None:
    """Start the session's clocks. The operator's roles set how long it may idle.

    Raises ClockSkewError.
    """
    clock.require_true()
    now = clock.now().isoformat()
    request.session[SIGNED_IN] = request.session[SEEN] = now
    request.session[POWERFUL] = second_factors.needs_factor(operator)


def _refresh_session(request: HttpRequest) -> bool:
    """Refresh the session, or end it if old or idle; return whether it is open."""
    if not request.user.is_authenticated:
        return False
    now, seen = clock.now(), _read_time(request, SEEN)
    old = now - _read_time(request, SIGNED_IN) > timedelta(hours=SESSION_HOURS)
    if old or now - seen > _compute_idle_limit(request):
        logout(request)
        return False
    if now - seen > _NOTED_EVERY:
        request.session[SEEN] = now.isoformat()
    return True


def is_local_request(request: HttpRequest) -> bool:
    """Tell whether a request comes from the machine that serves it."""
    peer, headers = request.META.get("REMOTE_ADDR", ""), list(request.headers)
    if isinstance(request, ASGIRequest):
        # Django leaves out headers with a `_` in their names.
        headers = [name.decode("latin-1") for name, _ in request.scope["headers"]]
    return is_local_peer(peer, host=request.get_host(), headers=headers)


def is_local_peer(peer: str, *, host: str, headers: Iterable[str]) -> bool:
    """Tell whether a request of this peer for this host never left the machine.

    Behind a proxy on the machine every peer is local, and a client may name any host.
    So no request is local where hosts are configured, or when a proxy passed it on.
    """
    names = (name.lower().replace("_", "-") for name in headers)
    if settings.HOSTS or any(map(_FORWARDED.search, names)):
        return False
    return peer in _LOOPBACK and split_domain_port(host)[0] in _OWN_NAMES


def _compute_idle_limit(request: HttpRequest) -> timedelta:
    if request.session.get(POWERFUL) and not is_local_request(request):
        return timedelta(minutes=IDLE_MINUTES_OFF_LOOPBACK)
    return timedelta(hours=IDLE_HOURS)


def _read_time(request: HttpRequest, key: str) -> datetime:
    """Read a time from the session; the year 1 if the session has none."""
    text = request.session.get(key)
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)

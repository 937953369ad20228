from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Concatenate, ParamSpec, cast
from urllib.parse import urlencode

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
from memoryhub.queries.threads import threads
from memoryhub.services.access import second_factors

P = ParamSpec("P")

#: A session ends so long after its sign-in, and so long after its last page.
SESSION_HOURS, IDLE_HOURS = 12, 8
#: For those who may erase and hand out keys, where others could reach the screen.
IDLE_MINUTES_OFF_LOOPBACK = 30
#: How exactly the last page is remembered; each note is a write to the session.
_NOTED_EVERY = timedelta(minutes=1)
#: What a session says it was let in by.
BACKEND = "inspector.access.backends.Password"
SIGNED_IN, SEEN, POWERFUL = "signed_in_at", "seen_at", "powerful"
_LOOPBACK = ("127.0.0.1", "::1")
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
#: What a header that names a client, or whoever passes its words on, has in its name:
#: there are dozens, and servers do not tell `_` from `-`.
_FORWARDED = re.compile(
    r"forward|client|prox|remote|addr|original|envoy|ip(v\d)?(-|$)"
    r"|(^|-)(real|via)(-|$)"
)


class SudoError(Exception):
    """The sign-in is too old for what only officers and owners may do."""


View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def signed_in(view: View[P]) -> View[P]:
    """Guard a page: who is no operator is sent to sign in and comes back."""
    return _guarded(view, panel=False)


def signed_in_panel(view: View[P]) -> View[P]:
    """Guard a panel: refusals come as panels, never as a redirect."""
    return _guarded(view, panel=True)


def _guarded(view: View[P], *, panel: bool) -> View[P]:
    @wraps(view)
    def guarded(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        try:
            # By another time a session that has ended would be alive.
            clock.require_true()
            if not _alive(request):
                return refusals.signed_out(request) if panel else to_sign_in(request)
            answer = view(request, *args, **kwargs)
            # Before a byte of it goes out: what can't be noted is not shown.
            read_audit.note(request, answer)
        except Http404:
            return refusals.response(request, NotFoundError(), panel=panel)
        except RoleError as missing:
            return refusals.forbidden(request, missing.role, panel=panel)
        except SudoError:
            return to_sign_in(request, why="old")
        except (SubjectErasedError, ThreadErasedError) as gone:
            return _gone(request, gone, kwargs.get("project"), panel=panel)
        except Refusal as refusal:
            return refusals.response(request, refusal, panel=panel)
        else:
            return answer

    return guarded


def _gone(
    request: HttpRequest, refusal: Refusal, project: object, *, panel: bool
) -> HttpResponse:
    """Show what became of something erased: the view has let them in."""
    if panel or not isinstance(project, str):
        return refusals.response(request, refusal, panel=panel)
    return erased_page.response(request, find_visitor(request, project), refusal)


def to_sign_in(request: HttpRequest, *, why: str = "") -> HttpResponse:
    # A form can't be sent again after signing in; its page can be opened again.
    got = request.method in ("GET", "HEAD")
    back = request.get_full_path() if got else returns.page_of(request.path_info)
    query = {"next": back} | ({"why": why} if why else {})
    return HttpResponseRedirect(f"{settings.LOGIN_URL}?{urlencode(query)}")


def find_visitor(request: HttpRequest, project: str) -> Visitor:
    """Find the operator and the role they have in the project, or 404. One query."""
    operator = operator_of(request)
    row = members.get_membership(project, operator)
    if row is None:
        raise Http404
    reading = read_audit.begin(request)
    return Visitor(
        operator=operator, project=row.project, role=row.role, reading=reading
    )


def find_owner(request: HttpRequest, project: str) -> Visitor:
    """Find the visitor of a page for owners. One query. Raises RoleError."""
    visitor = find_visitor(request, project)
    visitor.require(Membership.Role.OWNER)
    return visitor


def find_thread(visitor: Visitor, name: str) -> Thread:
    """Find the thread with its subject and project. One query.

    404 for what is unknown or another project's; 410 once it or its subject is erased;
    403 for a restricted subject's unless the operator is an officer.
    """
    row = threads.get_thread(visitor.project.id, name)
    row.project = visitor.project
    if row.subject.state == Subject.State.RESTRICTED:
        visitor.require(Membership.Role.OFFICER)
    visitor.note([row])
    return row


def require_recent_sign_in(request: HttpRequest, *, minutes: int | None = None) -> None:
    """Raise SudoError unless the operator signed in lately, or so many minutes ago."""
    age = clock.now() - _time(request, SIGNED_IN)
    if age > timedelta(minutes=minutes or settings.SUDO_MINUTES):
        raise SudoError


def operator_of(request: HttpRequest) -> Operator:
    return cast("Operator", request.user)


def note_sign_in(request: HttpRequest, operator: Operator) -> None:
    """Begin the session's clocks. Roles decide how long it may idle.

    Raises ClockSkewError.
    """
    clock.require_true()
    now = clock.now().isoformat()
    request.session[SIGNED_IN] = request.session[SEEN] = now
    request.session[POWERFUL] = second_factors.wanted(operator)


def _alive(request: HttpRequest) -> bool:
    """Tell whether its session is there, and neither old nor idle."""
    if not request.user.is_authenticated:
        return False
    now, seen = clock.now(), _time(request, SEEN)
    old = now - _time(request, SIGNED_IN) > timedelta(hours=SESSION_HOURS)
    if old or now - seen > _idle_limit(request):
        logout(request)
        return False
    if now - seen > _NOTED_EVERY:
        request.session[SEEN] = now.isoformat()
    return True


def near(request: HttpRequest) -> bool:
    """Tell whether it comes from the machine that serves it."""
    peer, headers = request.META.get("REMOTE_ADDR", ""), list(request.headers)
    if isinstance(request, ASGIRequest):
        # Django leaves out those with a `_` in their names.
        headers = [name.decode("latin-1") for name, _ in request.scope["headers"]]
    return is_near(peer, host=request.get_host(), headers=headers)


def is_near(peer: str, *, host: str, headers: Iterable[str]) -> bool:
    """Tell whether a request of this peer for this host never left the machine.

    Behind a proxy on the machine every peer is near, and whoever asks may name any
    host: so nobody is where hosts are configured, or by a request that was passed on.
    """
    names = (name.lower().replace("_", "-") for name in headers)
    if settings.HOSTS or any(map(_FORWARDED.search, names)):
        return False
    return peer in _LOOPBACK and split_domain_port(host)[0] in _OWN_NAMES


def _idle_limit(request: HttpRequest) -> timedelta:
    if request.session.get(POWERFUL) and not near(request):
        return timedelta(minutes=IDLE_MINUTES_OFF_LOOPBACK)
    return timedelta(hours=IDLE_HOURS)


def _time(request: HttpRequest, key: str) -> datetime:
    """Read a time kept in the session; long ago if it is absent."""
    text = request.session.get(key)
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)

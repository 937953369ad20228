"""Routes of LangChain's Agent Protocol that keep something: threads and the store.

Judged by LangGraph's SDK (0.4.14), whose bodies go beyond the protocol's document.
Routes that need a graph are not served: runs, assistants, crons, updates of a state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from memoryhub.api.errors import MethodError
from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_http
from memoryhub.api.http.gate import Application
from memoryhub.compat import agent_store, agent_threads
from memoryhub.compat.requests import AGENT_PROTOCOL, CompatAnswer, CompatRequest

_NOT_SERVED = "not_served: the hub keeps threads and items, and runs no graph"
_RUNNING: Final = {"agents", "assistants", "crons", "runs", "stream", "commands"}


class AgentProtocolServer:
    """Server of the protocol's routes, over the API in this process."""

    def __init__(self, api: Application) -> None:
        self._http = build_http(api)

    async def answer(self, request: CompatRequest) -> CompatAnswer:
        """Answer an admitted request; what the API refuses keeps status and words."""
        try:
            serve = _find_route(request)
            api = ApiCaller(
                http=self._http,
                authorization=request.authorization,
                person=request.person,
            )
            body = await serve(api, request)
        except HubRefusedError as refused:
            again = refused.retry_after
            headers = {"retry-after": again} if again else {}
            code, _, words = str(refused).partition(": ")
            status = AGENT_PROTOCOL.invalid if refused.status == 400 else refused.status
            problem = AGENT_PROTOCOL.build_problem(code, words)
            return CompatAnswer(status, problem, headers)
        return CompatAnswer(204 if body is None else 200, body, {})


Operation = Callable[[ApiCaller, CompatRequest], Awaitable[Any]]
#: Operations by method and path, where `*` is an id; the first that fits serves.
_ROUTES: Final[dict[str, Operation]] = {
    "PUT/store/items": agent_store.put_item,
    "GET/store/items": agent_store.get_item,
    "DELETE/store/items": agent_store.delete_item,
    "POST/store/items/search": agent_store.search_items,
    "POST/store/namespaces": agent_store.list_namespaces,
    "POST/threads": agent_threads.create_thread,
    "POST/threads/search": agent_threads.search_threads,
    "GET/threads/*": agent_threads.get_thread,
    "PATCH/threads/*": agent_threads.update_thread,
    "DELETE/threads/*": agent_threads.delete_thread,
    "POST/threads/*/copy": agent_threads.copy_thread,
    "GET/threads/*/state": agent_threads.get_state,
    "GET/threads/*/state/*": agent_threads.get_state,
    "POST/threads/*/state/checkpoint": agent_threads.get_state,
    "GET/threads/*/history": agent_threads.list_history,
    "POST/threads/*/history": agent_threads.list_history,
}


def _find_route(request: CompatRequest) -> Operation:
    """Return the operation. Raises HubRefusedError if there is none."""
    parts, is_known = request.parts, False
    for route, operation in _ROUTES.items():
        method, *path = route.split("/")
        if len(path) == len(parts) and all(map(_is_fit, path, parts)):
            if method == request.method:
                return operation
            is_known = True
    below = parts[2:3] if parts[0] == "threads" else ()
    if {parts[0], *below} & _RUNNING or parts[2:] == ("state",):
        raise HubRefusedError(501, _NOT_SERVED)
    if is_known:
        raise HubRefusedError(405, f"method_not_allowed: {MethodError().sentence}")
    raise HubRefusedError(404, "not_found: of this protocol the hub has no such route")


def _is_fit(expected: str, part: str) -> bool:
    return expected in ("*", part)

"""Routes of LangChain's Agent Protocol that keep something: threads and the store.

Judged by LangGraph's SDK (0.4.14), whose bodies go beyond the protocol's document. What
runs a graph is not served: runs, assistants, crons, and updates of a state, which need
the graph's reducers.
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
_RUNNING: Final = frozenset({"agents", "assistants", "crons", "runs"})


class AgentProtocolServer:
    """Server of the protocol's routes, over the API in this process."""

    def __init__(self, api: Application) -> None:
        self._http = build_http(api)

    async def answer(self, request: CompatRequest) -> CompatAnswer:
        """Answer an admitted request; what the API refuses keeps status and words."""
        try:
            serve = _find_route(request)
            api = ApiCaller(http=self._http, authorization=request.authorization)
            body = await serve(api, request)
        except HubRefusedError as refused:
            again = refused.retry_after
            headers = {"retry-after": again} if again else {}
            code, _, words = str(refused).partition(": ")
            # The protocol's status of a field that is wrong.
            status = 422 if code == "value" else refused.status
            problem = AGENT_PROTOCOL.build_problem(code, words)
            return CompatAnswer(status, problem, headers)
        return CompatAnswer(204 if body is None else 200, body, {})


Operation = Callable[[ApiCaller, CompatRequest], Awaitable[Any]]
#: Operations by path, where `*` is an id, and by method.
_ROUTES: Final[dict[tuple[str, ...], dict[str, Operation]]] = {
    ("store", "items"): {
        "PUT": agent_store.put_item,
        "GET": agent_store.get_item,
        "DELETE": agent_store.delete_item,
    },
    ("store", "items", "search"): {"POST": agent_store.search_items},
    ("store", "namespaces"): {"POST": agent_store.list_namespaces},
    ("threads",): {"POST": agent_threads.create_thread},
    ("threads", "search"): {"POST": agent_threads.search_threads},
    ("threads", "count"): {"POST": agent_threads.count_threads},
    ("threads", "*"): {
        "GET": agent_threads.get_thread,
        "PATCH": agent_threads.update_thread,
        "DELETE": agent_threads.delete_thread,
    },
    ("threads", "*", "copy"): {"POST": agent_threads.copy_thread},
    ("threads", "*", "state"): {"GET": agent_threads.get_state},
    ("threads", "*", "state", "checkpoint"): {"POST": agent_threads.get_state},
    ("threads", "*", "state", "*"): {"GET": agent_threads.get_state},
    ("threads", "*", "history"): {
        "GET": agent_threads.list_history,
        "POST": agent_threads.list_history,
    },
}


def _find_route(request: CompatRequest) -> Operation:
    """Return the operation. Raises HubRefusedError if there is none."""
    parts, methods = request.parts, dict[str, Operation]()
    for path, operations in _ROUTES.items():
        pairs = zip(path, parts, strict=False)
        if len(path) == len(parts) and all(a in ("*", b) for a, b in pairs):
            methods |= {each: operations[each] for each in operations.keys() - methods}
    if request.method in methods:
        return methods[request.method]
    needs_graph = parts[2:] == ("state",) or {*parts[2:3]} <= {
        "runs",
        "stream",
        "commands",
    }
    if parts[0] in _RUNNING or (parts[0] == "threads" and parts[2:] and needs_graph):
        raise HubRefusedError(501, _NOT_SERVED)
    if methods:
        raise HubRefusedError(405, f"method_not_allowed: {MethodError().sentence}")
    raise HubRefusedError(404, "not_found: of this protocol the hub has no such route")

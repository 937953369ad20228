"""The agent API: its routers, its document, its reference page."""

from __future__ import annotations

from threading import Lock
from typing import Any

from django.http import HttpRequest
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.security import HttpBearer

from memoryhub import __version__
from memoryhub.api.document import openapi
from memoryhub.api.episodes import episodes, learning
from memoryhub.api.forget import erasures, receipts
from memoryhub.api.http.operations import StrictOperation
from memoryhub.api.knowledge import blocks, facts
from memoryhub.api.memory import (
    checkpoints,
    items,
    keys,
    notes,
    stats,
    tasks,
    working_memory,
)
from memoryhub.api.observing import observing
from memoryhub.api.paging import page_acts, pages, working_set
from memoryhub.api.people import long_term, subject_exports, subjects
from memoryhub.api.search import searches
from memoryhub.api.threads import events, slots, threads
from memoryhub.api.turns import (
    guards,
    marks,
    own_tools,
    procedures,
    tool_calls,
    turn_lenses,
    turns,
)

PREFIX = "/api/v1/"


class Bearer(HttpBearer):
    """Documentation of the Bearer scheme; `auth.admit` checks the keys."""

    openapi_bearerFormat = "mh_<env>_<prefix>_<secret>"  # noqa: N815 # Ninja's name

    async def authenticate(self, request: HttpRequest, token: str) -> None:
        return None


class AgentAPI(NinjaAPI):
    """Ninja's API with a completed OpenAPI document."""

    #: Several readers may ask for the document at once.
    _building = Lock()
    _document: OpenAPISchema | None = None

    def get_openapi_schema(
        self,
        *,
        path_prefix: str | None = None,
        path_params: dict[str, Any] | None = None,
    ) -> OpenAPISchema:
        with self._building:
            if self._document is None:
                self._build_models()
                document = super().get_openapi_schema(path_prefix=PREFIX)
                openapi.complete(document)
                self._document = document
        return self._document

    def _build_models(self) -> None:
        for router in self._get_bound_routers():
            for view in router.path_operations.values():
                for operation in view.operations:
                    assert isinstance(operation, StrictOperation)
                    operation.build_models()

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return `<module>_<function>`, so that moving the module keeps the operation
        id."""
        view = operation.view_func
        return f"{view.__module__.rpartition('.')[2]}_{view.__name__}"


api = AgentAPI(
    title="MemoryHub",
    version=__version__,
    description=openapi.DESCRIPTION,
    auth=Bearer(),
    urls_namespace="api",
)
_NOUNS = (slots, threads, events, stats, pages, page_acts, working_set, turns, marks)
_MEMORY = (keys, tasks, notes, checkpoints, working_memory)
_LONG_TERM = (blocks, items, facts, episodes, long_term, learning)
_PRIVACY = (erasures, receipts, subjects, subject_exports)
_PAGING = (
    *(turn_lenses, tool_calls, guards, procedures, own_tools),
    *(searches, observing),
)
for _noun in (*_NOUNS, *_PAGING, *_MEMORY, *_LONG_TERM, *_PRIVACY):
    api.add_router("", _noun.router)

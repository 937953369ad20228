"""Every contract between rooms fails when an import breaks it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.application.use_cases import read_user_options
from importlinter.configuration import configure
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract
from importlinter.domain.contract import Contract

configure()
OPTIONS = read_user_options(
    config_filename=str(Path(__file__).resolve().parent.parent / "pyproject.toml")
)
SESSION = OPTIONS.session_options
CONTRACTS: dict[str, dict[str, Any]] = {
    contract["name"]: contract for contract in OPTIONS.contracts_options
}
TYPES: dict[str, type[Contract]] = {
    "layers": LayersContract,
    "forbidden": ForbiddenContract,
    "protected": ProtectedContract,
    "acyclic_siblings": AcyclicSiblingsContract,
}

#: An import that breaks the contract, by contract.
BREACHES = {
    "Every module has a room, and imports only point down": (
        "memoryhub.queries.paging.pages",
        "memoryhub.services.paging.pages",
    ),
    "The hub does not know the inspector": (
        "memoryhub.services.paging.pages",
        "inspector.paging.pages",
    ),
    "The inspector does not know the agent API": (
        "inspector.paging.pages",
        "memoryhub.api.paging.pages",
    ),
    "The inspector reads by queries and acts by services": (
        "inspector.paging.pages",
        "memoryhub.journal.log.log",
    ),
    "The client is a stranger, who has httpx2 and nothing of ours": (
        "memoryhub_client.slots",
        "memoryhub.errors",
    ),
    "Only the checkpointer and the store need LangGraph": (
        "memoryhub_client.slots",
        "langgraph",
    ),
    "Only the memory tool needs Anthropic's SDK": (
        "memoryhub_client.slots",
        "anthropic",
    ),
    "Only the session service needs Google ADK": ("memoryhub_client.slots", "google"),
    "Only the conversation store needs Pydantic AI": (
        "memoryhub_client.slots",
        "pydantic_ai",
    ),
    "The kernel is pure": ("memoryhub.kernel.paging.faults", "django"),
    "Channels: announce rings, the listener hears, consumers hold sockets": (
        "memoryhub.services.paging.pages",
        "channels",
    ),
    "No circles, at any depth": (
        "memoryhub.kernel.paging.eviction.pins",
        "memoryhub.kernel.paging.faults",
    ),
    "Rooms of the kernel only point down": (
        "memoryhub.kernel.paging.faults",
        "memoryhub.kernel.threads.slots",
    ),
    "Rooms of the journal only point down": (
        "memoryhub.journal.rows.totals",
        "memoryhub.journal.log.chain",
    ),
    "Rooms of the vault only point down": (
        "memoryhub.vault.keys.keyring",
        "memoryhub.vault.proof.ledger",
    ),
    "Rooms of queries only point down": (
        "memoryhub.queries.forget.erasures",
        "memoryhub.queries.memory.notes",
    ),
    "Rooms of services only point down": (
        "memoryhub.services.people.subjects",
        "memoryhub.services.forget.erasures",
    ),
    "Rooms of the API only point down": (
        "memoryhub.api.http.auth",
        "memoryhub.api.memory.notes",
    ),
    "Rooms of the inspector only point down": (
        "inspector.web.shell",
        "inspector.memory.notes",
    ),
}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Return every import, those for types alone included."""
    return grimp.build_graph(
        *SESSION["root_packages"],
        cache_dir=None,
        include_external_packages=True,
        exclude_type_checking_imports=False,
    )


def is_kept(name: str, graph: grimp.ImportGraph) -> bool:
    """Tell whether the contract holds in that graph, which stays unchanged."""
    contract = TYPES[CONTRACTS[name]["type"]](
        name, session_options=SESSION, contract_options=CONTRACTS[name]
    )
    return contract.check(deepcopy(graph), verbose=False).kept


def test_imports_for_types_count() -> None:
    assert SESSION["exclude_type_checking_imports"] == "False"


def test_every_contract_has_a_breach() -> None:
    assert BREACHES.keys() == CONTRACTS.keys()


@pytest.mark.parametrize("name", BREACHES)
def test_planted_import_breaks_the_contract(
    name: str, graph: grimp.ImportGraph
) -> None:
    importer, imported = BREACHES[name]
    assert importer in graph.modules
    assert imported in graph.modules
    assert is_kept(name, graph)
    planted = deepcopy(graph)
    planted.add_import(importer=importer, imported=imported)
    assert not is_kept(name, planted)

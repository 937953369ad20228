"""Search for lines of a source that write rows, by syntax alone."""

import ast
import re
from collections.abc import Iterator

from tests.sources.files import iter_calls

#: Nothing but a row, a manager or a queryset has these.
WRITERS = {
    f"{prefix}{name}"
    for prefix in ("", "a")
    for name in ("save", "bulk_create", "bulk_update", "get_or_create")
} | {"update_or_create", "aupdate_or_create"}
#: Methods of querysets and related managers that plain values have as well.
AMBIGUOUS = {"create", "acreate", "update", "aupdate", "delete", "adelete"}
#: What only a manager or a queryset has; its result is one again.
QUERYSET = {"objects", "all", "exclude", "filter", "order_by", "using", "scoped"}
#: Their modules are called through them.
LAYERS = {"services", "queries", "journal", "vault", "kernel"}
#: Models whose rows repeat what the journal folds to, and their list.
PROJECTED = {
    *("Checkpoint", "Derivation", "DueValue", "EvictedPage", "Key", "Page"),
    *("PageLevel", "Slot", "ThreadLabel", "Total", "Turn", "PROJECTIONS"),
}
#: Writing functions by module of `journal/rows`.
PROJECTION_WRITERS = {
    "projections": {"clear", "write", "write_labels"},
    "totals": {"arrive", "recount"},
    "statements": {"delete_batch"},
    "page_rows": {"write"},
    "due_rows": {"write"},
    "current_rows": {"write"},
    "erased_rows": {"write"},
}
WRITING_SQL = re.compile(
    r"\s*(INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|REPLACE\s+INTO|TRUNCATE)\b",
    re.IGNORECASE,
)


def writes_row(call: ast.Call, related: set[str]) -> bool:
    """Tell whether this call, by its form, writes rows through Django's ORM."""
    if not isinstance(call.func, ast.Attribute) or spared(call.func.value):
        return False
    name, receiver = call.func.attr, call.func.value
    if name in WRITERS:
        return True
    return name in AMBIGUOUS and (
        leads_to_rows(receiver, related) or by_its_arguments(name, call)
    )


def spared(receiver: ast.expr) -> bool:
    """Tell whether a call is of the browser's session or of a module, not of rows."""
    if not isinstance(receiver, ast.Attribute):
        return False
    owner = receiver.value
    module = isinstance(owner, ast.Name) and owner.id in LAYERS
    return module or receiver.attr == "session"


def leads_to_rows(receiver: ast.expr, related: set[str]) -> bool:
    chain = [node for node in ast.walk(receiver) if isinstance(node, ast.Attribute)]
    last = receiver.attr if isinstance(receiver, ast.Attribute) else ""
    return last in related or not QUERYSET.isdisjoint(node.attr for node in chain)


def by_its_arguments(name: str, call: ast.Call) -> bool:
    """Tell whether a call writes rows by its arguments, whatever its variable is."""
    if name.endswith("delete"):
        return not call.args and not call.keywords
    return name.endswith("update") and not call.args and bool(call.keywords)


def writes_sql(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and WRITING_SQL.match(node.value) is not None
    )


def row_writes(module: ast.Module, related: set[str]) -> Iterator[int]:
    """Yield the lines that write rows. `related`: attributes that lead to rows."""
    yield from (call.lineno for call in iter_calls(module) if writes_row(call, related))
    for node in ast.walk(module):
        if writes_sql(node):
            assert isinstance(node, ast.Constant)
            yield node.lineno


# Rows of projections


def projection_writes(module: ast.Module, related: set[str]) -> Iterator[int]:
    """The lines that may write projections: by a function of the journal that does,
    or by a write of rows in a module that names one of their models.
    """
    if not imported_names(module).isdisjoint(PROJECTED):
        yield from row_writes(module, related)
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and opens_projections(node):
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and imports_writer(node):
            yield node.lineno


def imported_names(module: ast.Module) -> set[str]:
    return {
        alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def opens_projections(node: ast.Attribute) -> bool:
    """`projections.write`, called or handed on, and `statements.SLOTS.rows`."""
    owner = node.value
    if isinstance(owner, ast.Name):
        return node.attr in PROJECTION_WRITERS.get(owner.id, ())
    if not isinstance(owner, ast.Attribute) or not isinstance(owner.value, ast.Name):
        return False
    return node.attr == "rows" and owner.value.id == "statements"


def imports_writer(node: ast.ImportFrom) -> bool:
    room, _, name = (node.module or "").rpartition(".")
    known = PROJECTION_WRITERS.get(name, ()) if room == "memoryhub.journal.rows" else ()
    return any(alias.name in known for alias in node.names)

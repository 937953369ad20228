"""Search for lines of a source that read rows, by syntax alone."""

import ast
from collections.abc import Iterator

from tests.sources.files import iter_calls
from tests.sources.row_writes import LAYERS

MANAGERS = {"objects", "_base_manager", "_default_manager"}
#: Nothing but a manager, a queryset or a row has these.
READERS = {
    f"{prefix}{name}"
    for prefix in ("", "a")
    for name in ("aggregate", "in_bulk", "refresh_from_db")
} | {
    *("annotate", "exclude", "filter", "order_by", "prefetch_related", "scoped"),
    *("select_for_update", "select_related", "using", "values_list"),
}
#: What the manager of related rows is asked, and plain values as well.
RELATED_READERS = {"all", "count", "exists", "first", "get", "iterator", "last"}
#: Modules that make a query without a manager.
IMPORTS = {
    "django.db.connection",
    "django.db.models",
    "django.shortcuts.get_list_or_404",
    "django.shortcuts.get_object_or_404",
}


def reads_row(call: ast.Call, related: set[str]) -> bool:
    """Tell whether this call, by its form, reads rows through Django's ORM."""
    if not isinstance(call.func, ast.Attribute):
        return False
    name, receiver = call.func.attr, call.func.value
    if name in READERS:
        # The library of a template's tags has a decorator of this name.
        return not (isinstance(receiver, ast.Name) and receiver.id == "register")
    return name in RELATED_READERS and leads_to_related(receiver, related)


def leads_to_related(receiver: ast.expr, related: set[str]) -> bool:
    if not isinstance(receiver, ast.Attribute) or receiver.attr not in related:
        return False
    owner = receiver.value
    return not (isinstance(owner, ast.Name) and owner.id in LAYERS)


def imports_queries(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in IMPORTS for alias in node.names)
    if not isinstance(node, ast.ImportFrom) or node.module is None:
        return False
    names = {f"{node.module}.{alias.name}" for alias in node.names}
    below = node.module.startswith("django.db.models.")
    return below or not IMPORTS.isdisjoint({node.module, *names})


def row_reads(module: ast.Module, related: set[str]) -> Iterator[int]:
    """Yield the lines that read rows. `related`: attributes that lead to other rows."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and node.attr in MANAGERS:
            yield node.lineno
        if isinstance(node, ast.stmt) and imports_queries(node):
            yield node.lineno
    yield from (call.lineno for call in iter_calls(module) if reads_row(call, related))

"""Statements that a cluster refuses, among all that tests run.

A cluster keeps rows of `PER_THREAD` on its workers by thread, and all others on its
coordinator. Plain joins of both kinds run there. Citus refuses a subquery of one kind
that names a column of the other, an outer join of both, and a join of one thread's rows
with another's: such a statement is two statements here. See decision 99.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import sqlglot
from django.db.backends.base.base import BaseDatabaseWrapper
from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.optimizer.scope import Scope, traverse_scope

from memoryhub.models.per_thread import list_tables

SPREAD = frozenset(list_tables())
#: What is asked only where no cluster is (`is_spread`): the list of people.
KNOWN = frozenset({"slot, thread with subject outside"})
_TABLE = re.compile(r"\bmemoryhub_([a-z]+)\b")


class StatementWatch:
    """Record of the statements that name a spread table and another, each once."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.fresh: list[str] = []

    def connect(self, connection: BaseDatabaseWrapper, **signal: Any) -> None:
        if self not in connection.execute_wrappers:
            connection.execute_wrappers.append(self)

    def __call__(self, execute: Any, sql: Any, params: Any, *rest: Any) -> Any:
        """Note a statement, and run it."""
        if sql not in self.seen:
            self.seen.add(sql)
            named = [each[0] for each in _TABLE.finditer(sql)]
            if len(named) > 1 and not SPREAD.isdisjoint(named):
                self.fresh.append(sql)
        return execute(sql, params, *rest)

    def take_refused(self) -> list[str]:
        """Return what a cluster would refuse of the statements since the last call."""
        fresh, self.fresh = self.fresh, []
        found = {each for sql in fresh for each in find_crossings(sql)}
        return sorted(found - KNOWN)


watch = StatementWatch()


def find_crossings(statement: str) -> list[str]:
    """Find the tables that a cluster would refuse to join, in words."""
    text = re.sub(r"%s|\?", "NULL", statement)
    if not re.match(r"\s*(SELECT|WITH|UPDATE|DELETE)\b", text):
        return []
    with suppress(ParseError):  # what SQLite alone takes
        tree = sqlglot.parse_one(text, dialect="postgres")
        return sorted({*_iter_crossings(tree)})
    return []


def _iter_crossings(tree: exp.Expr) -> Iterator[str]:
    for scope in traverse_scope(tree):
        inner = _list_tables(scope)
        outer = {_find_outer(scope, each.table) for each in scope.external_columns}
        outer.discard("")
        around = f"{_describe(outer)} outside"
        if inner and outer and _is_mixed([*inner, *outer]):
            yield f"{_describe(inner)} with {around}"
        elif inner and outer and _joins_threads(scope.expression):
            yield f"{_describe(inner)} of other threads than {around}"
        elif inner and outer and _has_several_threads(scope.expression):
            yield f"{_describe(inner)} of several threads with {around}"
        joins = scope.expression.args.get("joins") or ()
        if any(each.side for each in joins) and _is_mixed(inner):
            yield f"{_describe(inner)} in an outer join"


def _list_tables(scope: Scope) -> list[str]:
    """List the tables of a query's own FROM, each as often as it stands there."""
    found = (each for each in scope.sources.values() if isinstance(each, exp.Table))
    return sorted(each.name for each in found if _TABLE.fullmatch(each.name))


def _find_outer(scope: Scope, alias: str) -> str:
    """Find the table that an alias means in the queries around this one."""
    while scope.parent is not None:
        scope = scope.parent
        source = scope.sources.get(alias)
        if isinstance(source, exp.Table) and _TABLE.fullmatch(source.name):
            return source.name
    return ""


def _describe(tables: Iterable[str]) -> str:
    return ", ".join(sorted({each.removeprefix("memoryhub_") for each in tables}))


def _is_mixed(tables: Iterable[str]) -> bool:
    return len({table in SPREAD for table in tables}) == 2


def _joins_threads(query: exp.Expr) -> bool:
    """Tell whether a query compares a `thread_id` with a column of another meaning."""
    named = _list_compared(query)
    return any("thread_id" in each and each - {"thread_id", "id"} for each in named)


def _has_several_threads(query: exp.Expr) -> bool:
    """Tell whether a query takes threads by an OR, as that of a fork does."""
    if {"thread_id"} in _list_compared(query):
        return False
    columns = (each.find_all(exp.Column) for each in query.find_all(exp.Or))
    return any(each.name == "thread_id" for found in columns for each in found)


def _list_compared(query: exp.Expr) -> list[set[str]]:
    """List the names of columns that a query compares with each other."""
    pairs = [
        (each.left.unnest(), each.right.unnest()) for each in query.find_all(exp.EQ)
    ]
    return [
        {side.name for side in pair}
        for pair in pairs
        if all(isinstance(side, exp.Column) for side in pair)
    ]

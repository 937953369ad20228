"""Finders of code and models that can hold content without a declaration.

Each function names what it found, so that a test can plant something for it.
"""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import structlog
from django.db import models

from memoryhub.models.privacy import Fate, Holds, Privacy
from memoryhub.models.server.ids import NameField
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.settings import Environment

#: Allowed contents by type of field. A field of no type named here is refused.
ALLOWED: dict[type[models.Field[Any, Any]], Holds] = {
    models.FileField: Holds(0),
    models.BinaryField: Holds.SEALED | Holds.DIGEST | Holds.ID,
    models.JSONField: ~Holds.SEALED,
    models.TextField: ~Holds.SEALED,
    NameField: ~(Holds.SEALED | Holds.DIGEST | Holds.TIME),
    models.CharField: Holds.ID | Holds.WORD | Holds.STAFF | Holds.TITLE,
    models.GenericIPAddressField: Holds.STAFF,
    models.DateTimeField: Holds.TIME | Holds.STAFF,
    models.DateField: Holds.TIME,
    models.BooleanField: Holds.WORD,
    models.UUIDField: Holds.ID,
    models.AutoField: Holds.ID,
    models.ForeignKey: Holds.ID,
    models.IntegerField: Holds.NUMBER | Holds.ID,
    models.FloatField: Holds.NUMBER,
}
#: What becomes of places whose rows stay, or whose bytes must be gone at once.
_BY_NAME = (Fate.NULLED, Fate.BLANKED, Fate.DESTROYED)
#: Base classes of caches that drop the oldest entry.
_EVICTING = {"OrderedDict", "Lru"}
_COLLECTIONS = {
    *("dict", "list", "set", "OrderedDict", "defaultdict", "deque", "Counter"),
    *("WeakKeyDictionary", "WeakValueDictionary", "SimpleQueue", "Queue", "local"),
}
#: Instances of their subclasses are made once and stay as they are.
_FIXED = {"NamedTuple", "NinjaAPI", "Router", "StrictRouter"}
_CHANGERS = {
    *("add", "append", "appendleft", "clear", "extend", "insert", "pop", "popitem"),
    *("remove", "setdefault", "update"),
}


Tables = Mapping[type[models.Model], Privacy]


def misfits(tables: Tables) -> list[str]:
    """Return fields that declare what their type must not hold, or nothing."""
    return [
        f"{model._meta.label}.{name} must not hold {holds}"
        for model, privacy in tables.items()
        for name, holds in privacy.holds.items()
        if not holds or holds & ~_allowed(model._meta.get_field(name))
    ]


def _allowed(field: object) -> Holds:
    for kind, allowed in ALLOWED.items():
        if isinstance(field, kind):
            return allowed
    return Holds(0)


def unfindable(tables: Tables) -> list[str]:
    """Return models that refer to a subject or thread but name no way to find it."""
    return sorted(
        model._meta.label
        for model, privacy in tables.items()
        if privacy.subject is None
        and any(
            field.related_model in {Subject, Thread}
            for field in model._meta.local_concrete_fields
        )
    )


def unerased(
    tables: Tables, named: Collection[type[models.Model]]
) -> list[type[models.Model]]:
    """Return tables whose part of a subject no eraser erases.

    Rows are deleted by a walk over all tables that have a thread's or a subject's own
    column; whatever else becomes of a place is `named`: somebody has written it.
    """
    return [
        model
        for model, privacy in tables.items()
        if (privacy.forget is Fate.DELETED and not _walked(model, privacy))
        or (privacy.forget in _BY_NAME and model not in named)
    ]


def _walked(model: type[models.Model], privacy: Privacy) -> bool:
    own = {each.name for each in model._meta.local_concrete_fields}
    return (privacy.thread or privacy.subject) in own


def backends(*configured: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the classes behind the aliases of CACHES, CHANNEL_LAYERS and the like."""
    return {str(each["BACKEND"]) for aliases in configured for each in aliases.values()}


def log_handlers() -> set[str]:
    """Return the classes of all log handlers in this process."""
    loggers = [logging.root, *map(logging.getLogger, logging.root.manager.loggerDict)]
    handlers: list[object] = [each for logger in loggers for each in logger.handlers]
    handlers += [logging.lastResort, structlog.get_config()["logger_factory"]]
    return {f"{type(each).__module__}.{type(each).__name__}" for each in handlers}


#: What may be set, and as what.
TYPES = {name: each.annotation for name, each in Environment.model_fields.items()}


def paths(settings: object) -> set[str]:
    """Return the names of settings that are a file or folder."""
    values = {name: getattr(settings, name) for name in dir(settings) if name.isupper()}
    return {
        name
        for name, value in values.items()
        if isinstance(value, Path)
        # One that is not set here may be elsewhere.
        or Path in get_args(TYPES.get(f"MEMORYHUB_{name}"))
        # Django's own are texts: MEDIA_ROOT, FILE_UPLOAD_TEMP_DIR and so on.
        or (value and name.endswith(("_ROOT", "_DIR", "_FILE", "_FOLDER")))
    }


def parse_sources(root: Path, *folders: str) -> dict[str, ast.Module]:
    """Return syntax trees by module name, without migrations."""
    files = (path for folder in folders for path in (root / folder).rglob("*.py"))
    return {
        ".".join(path.relative_to(root).with_suffix("").parts): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in files
        if "migrations" not in path.parts
    }


def process_state(modules: Mapping[str, ast.Module]) -> set[str]:
    """Return `module.name` of each object that outlives a request, by its form.

    Cached functions, LRU classes, names that a function rebinds, and what a module
    holds at its top: collections that are empty or changed, instances of our own
    classes that are not frozen.
    """
    changeable = {
        f"{module}.{name}"
        for module, tree in modules.items()
        for name in _changeable(tree)
    }
    return {
        f"{module}.{name}"
        for module, tree in modules.items()
        for name in chain(
            _cached(tree),
            _rebound(tree),
            _iter_held(tree, _changeable_names(module, tree, changeable)),
        )
    }


def _cached(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {_name(decorator) for decorator in node.decorator_list}
            if decorators & {"cache", "lru_cache"}:
                yield node.name
        if isinstance(node, ast.ClassDef):
            evicts = any(_name(part) in _EVICTING for part in ast.walk(node))
            if evicts or re.search(r"Lru|LRU|Cache", node.name):
                yield node.name


def _rebound(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


def _iter_held(tree: ast.Module, changeable: set[str]) -> Iterator[str]:
    changed = set(_iter_changed(tree))
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        else:
            continue
        assert node.value is not None
        for target in targets:
            if isinstance(target, ast.Name) and (
                _can_hold(node.value, changeable) or target.id in changed
            ):
                yield target.id


def _can_hold(value: ast.expr, changeable: set[str]) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List | ast.Set):
        return not value.elts
    return isinstance(value, ast.Call) and (
        _name(value) in _COLLECTIONS or ast.unparse(value.func) in changeable
    )


def _changeable_names(module: str, tree: ast.Module, changeable: set[str]) -> set[str]:
    """Return the changeable classes as this module spells them: `Hub`, `hubs.Hub`."""
    spelled = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return {
        *(name.removeprefix(f"{module}.") for name in changeable),
        *(here for here, name in spelled.items() if name in changeable),
        *(
            f"{here}.{name.removeprefix(f'{place}.')}"
            for here, place in spelled.items()
            for name in changeable
            if name.startswith(f"{place}.")
        ),
    }


def _iter_changed(tree: ast.Module) -> Iterator[str]:
    """Yield names whose items some function sets, deletes or changes by a method."""
    functions = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    for node in chain(*map(ast.walk, functions)):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store | ast.Del)
            and isinstance(node.value, ast.Name)
        ):
            yield node.value.id
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGERS
            and isinstance(node.func.value, ast.Name)
        ):
            yield node.func.value.id


def _changeable(tree: ast.Module) -> Iterator[str]:
    """Yield classes of this module whose instances can change."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            frozen = any("frozen=True" in decorator for decorator in decorators)
            if not frozen and not _FIXED & set(map(_name, node.bases)):
                yield node.name


def _name(node: ast.AST) -> str:
    """Return `lru_cache` for `functools.lru_cache(maxsize=2)`, and the like."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""

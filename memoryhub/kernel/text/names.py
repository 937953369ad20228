"""Names: plain texts that clients choose, and their blanking.

Pure. Bodies mark such fields with `Name`, so that the chain can hash a digest of each
name and an erasure can put that digest in the name's place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Annotated, Any, get_args
from uuid import UUID

from pydantic import BaseModel

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$"
#: A blanked name: `~` can not begin a name that a client chose.
_NAME = re.compile(NAME_PATTERN[1:-1])
_BLANK = re.compile("~[0-9a-f]{32}")
#: Prefix of a value that is no text; no name begins with it.
OTHER = "="
_RESERVED = ("mh.", "_")
#: Prefix of the names of home threads, which no agent can give.
HOME = "mh.home."
_OF_SUBJECT = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:")


class NameMark:
    """Mark of a field whose text a client chose."""


Name = Annotated[str, NameMark()]


def is_valid(text: str) -> bool:
    """Return whether a client may choose this name; nothing is trimmed or folded."""
    return _NAME.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """Return whether a slot type has a package: a `.` between two non-empty parts."""
    return "." in text and all(text.split("."))


def is_reserved(text: str) -> bool:
    return text.startswith(_RESERVED)


def add_subject(subject: UUID, name: str) -> str:
    """Return the stored form of a name given by a key bound to the subject.

    The prefix keeps such a key from learning others' thread names by what is taken.
    """
    return f"{subject}:{name}"


def remove_subject(name: str, subject: UUID) -> str:
    """Return the name by which a key bound to the thread's subject knows the thread."""
    return name.removeprefix(add_subject(subject, ""))


def find_owner(name: str) -> UUID | None:
    """Return the id of the only subject that may own threads of this name, if any."""
    found = _OF_SUBJECT.match(name)
    return UUID(found[0][:-1]) if found else None


def build_home_name(subject: UUID) -> str:
    """Return the name of the subject's home thread."""
    return f"{HOME}{subject}"


@lru_cache(maxsize=65_536)
def blank(salt: bytes, name: str) -> str:
    """Return `~` and 32 hex digits; a name already blanked stays unchanged."""
    if name.startswith("~"):
        return name
    digest = hashlib.blake2b(salt + name.encode(), digest_size=16)
    return "~" + digest.hexdigest()


def is_blanked(text: str) -> bool:
    return _BLANK.fullmatch(text) is not None


def replace_names(
    model: type[BaseModel], body: dict[str, Any], change: Callable[[str], str]
) -> dict[str, Any]:
    """Return the JSON body of `model` with each marked name passed through `change`."""
    marked, nested = _list_name_fields(model)
    changed = dict(body)
    for field in marked:
        if (value := changed.get(field)) not in (None, "", []):
            changed[field] = _change_names(value, change)
    for field, inner in nested:
        if found := changed.get(field):
            changed[field] = _replace_inside(inner, found, change)
    return changed


def iter_marked_fields(model: type[BaseModel]) -> Iterator[str]:
    """Yield the serialised names of all marked fields, also of nested models."""
    marked, nested = _list_name_fields(model)
    yield from marked
    for _, inner in nested:
        yield from iter_marked_fields(inner)


def has_mark(parts: tuple[Any, ...], *marks: type) -> bool:
    """Return whether an annotation's parts hold one of these marks, at any depth."""
    return any(isinstance(p, marks) or has_mark(get_args(p), *marks) for p in parts)


def to_name(value: float) -> str:
    """Return a number or boolean as a name; `1` digests differently from "1"."""
    return f"{OTHER}{json.dumps(value)}"


def _change_names(value: Any, change: Callable[[str], str]) -> Any:
    """Change a name or a list of names; labels may hold numbers and booleans there."""
    if isinstance(value, list):
        return [_change_names(each, change) for each in value]
    return change(value if isinstance(value, str) else to_name(value))


def _replace_inside(
    model: type[BaseModel], value: Any, change: Callable[[str], str]
) -> Any:
    """Replace the names in a model, or in a list of models with gaps."""
    if isinstance(value, list):
        return [_replace_inside(model, each, change) for each in value]
    return None if value is None else replace_names(model, value, change)


@cache
def _list_name_fields(
    model: type[BaseModel],
) -> tuple[tuple[str, ...], tuple[tuple[str, type[BaseModel]], ...]]:
    """Return serialised names of the marked fields, and of the fields with models."""
    marked, nested = [], []
    for field, info in model.model_fields.items():
        alias = info.serialization_alias or info.alias or field
        if has_mark((info.annotation, *info.metadata), NameMark):
            marked.append(alias)
        nested += [(alias, inner) for inner in _list_models(info.annotation)]
    return tuple(marked), tuple(nested)


def _list_models(annotation: Any) -> list[type[BaseModel]]:
    found = []
    for part in get_args(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            found.append(part)
        found += _list_models(part)
    return found

"""Store half of the Agent Protocol: items are the keys of MemoryHubStore's thread."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path
from memoryhub.compat.fields import build_refusal, get_field, require_fields
from memoryhub.compat.langgraph_filters import is_match
from memoryhub.compat.langgraph_keys import allow_missing, list_keys
from memoryhub.compat.langgraph_names import (
    LONG,
    STORE,
    STORE_THREAD,
    Namespace,
    build_item_glob,
    build_item_name,
    build_item_value,
    parse_item,
    parse_item_name,
    require_namespace,
)
from memoryhub.compat.requests import CompatRequest

#: The hub's limits: characters and words of a query, and hits of a search.
_QUERY, _WORDS, _HITS = 1_000, 64, 50
_KEYS: Final = build_path("threads", STORE, "keys")
_YEAR_MINUTES: Final = 525_600


async def put_item(api: ApiCaller, request: CompatRequest) -> None:
    """Keep an item, by default for good; every item is searched, as in the client."""
    served = {"namespace", "key", "value", "index", "ttl"}
    body = require_fields(request.body, served)
    namespace = require_namespace(body.get("namespace"), may_be_empty=False)
    key = get_field(body, "key", str, None)
    value = get_field(body, "value", dict, None)
    ttl = get_field(body, "ttl", (int, float), 0)
    if "ttl" in body and not 0 < ttl <= _YEAR_MINUTES:
        raise build_refusal(f"ttl: minutes, at most {_YEAR_MINUTES}")
    name = build_item_name(namespace, key)
    stored = {
        "value": build_item_value(name, namespace, key, value),
        "ttl_seconds": math.ceil(ttl * 60) or None,
    }
    path = f"{_KEYS}{build_path(name)}"
    try:
        await api.call("PUT", path, stored)
    except HubRefusedError as refused:
        if refused.status != 404:
            raise
        await api.call("PUT", build_path("threads", STORE), STORE_THREAD)
        await api.call("PUT", path, stored)


async def get_item(api: ApiCaller, request: CompatRequest) -> Any:
    """Read an item by its labels, which the client joins with periods."""
    names = {"namespace", "key", "refresh_ttl"}
    sent = require_fields(request.query, names)
    _require_plain_read(sent)
    labels = [value for name, value in request.pairs if name == "namespace"]
    if len(labels) == 1:
        labels = labels[0].split(".")
    namespace = require_namespace(labels, may_be_empty=False)
    name = build_item_name(namespace, get_field(sent, "key", str, None))
    return _build_item(await api.call("GET", f"{_KEYS}{build_path(name)}"))


async def delete_item(api: ApiCaller, request: CompatRequest) -> None:
    """Delete an item, if there is one, as LangGraph's stores do."""
    body = require_fields(request.body, {"namespace", "key"})
    namespace = require_namespace(body.get("namespace"), may_be_empty=False)
    name = build_item_name(namespace, get_field(body, "key", str, None))
    with allow_missing():
        await api.call("DELETE", f"{_KEYS}{build_path(name)}")


async def search_items(api: ApiCaller, request: CompatRequest) -> Any:
    """Find items below a prefix: by last write, or by the words of a query first."""
    names = {"namespace_prefix", "filter", "limit", "offset", "query", "refresh_ttl"}
    body = require_fields(request.body, names)
    _require_plain_read(body)
    prefix = require_namespace(body.get("namespace_prefix", []))
    conditions = get_field(body, "filter", dict, {})
    first, end = parse_range(body, 10)
    is_match({}, conditions)  # Refuses an unknown operator whatever is stored.
    found = [
        (each, item)
        for each in await list_keys(api, STORE, build_item_glob(prefix))
        for item in [_build_item(each)]
        if tuple(item["namespace"][: len(prefix)]) == prefix
        and is_match(item["value"], conditions)
    ]
    found.sort(key=lambda pair: (pair[0]["set_at"], pair[0]["seq"]), reverse=True)
    query = get_field(body, "query", str, "")
    scores = await _search_words(api, query) if query and found else {}
    ranked = [
        {**item, "score": _get_score(each, scores.get(each["key"], {}))}
        for each, item in found
    ]
    ranked.sort(key=lambda item: math.inf if item["score"] is None else -item["score"])
    return {"items": ranked[first:end]}


async def list_namespaces(api: ApiCaller, request: CompatRequest) -> Any:
    """List the namespaces that have items; `*` in a prefix or suffix is any label."""
    names = {"prefix", "suffix", "max_depth", "limit", "offset"}
    body = require_fields(request.body, names)
    prefix = require_namespace(body.get("prefix", []))
    suffix = require_namespace(body.get("suffix", []))
    depth = get_field(body, "max_depth", int, 1_000)
    first, end = parse_range(body, 100)
    fixed = prefix[: prefix.index("*")] if "*" in prefix else prefix
    glob = build_item_glob(fixed)
    found = {
        parse_item_name(each["key"])[0]
        for each in await list_keys(api, STORE, glob, values=False)
        if LONG not in each["key"]
    }
    for each in await list_keys(api, STORE, f"{glob}{LONG}*"):
        found.add(tuple(_build_item(each)["namespace"]))
    chosen = {
        namespace[: max(depth, 0)]
        for namespace in found
        if len(namespace) >= max(len(prefix), len(suffix))
        and _is_alike(namespace[: len(prefix)], prefix)
        and _is_alike(namespace[len(namespace) - len(suffix) :], suffix)
    }
    return {"namespaces": [[*each] for each in sorted(chosen)[first:end]]}


def parse_range(body: Mapping[str, Any], default: int) -> tuple[int, int]:
    """Return begin and end of the part that is asked for. Raises HubRefusedError."""
    limit = get_field(body, "limit", int, default)
    offset = get_field(body, "offset", int, 0)
    if not (1 <= limit <= 1_000 and 0 <= offset <= 10_000):
        raise build_refusal("limit: 1 to 1000; offset: at most 10000")
    return offset, offset + limit


def _require_plain_read(sent: Mapping[str, Any]) -> None:
    if sent.get("refresh_ttl") in (True, "true"):
        raise build_refusal("refresh_ttl: an item ends when it was put to end")


def _build_item(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Build an item of a stored key. Raises HubRefusedError for another's key."""
    try:
        namespace, key, value = parse_item(stored)
    except (KeyError, TypeError):
        raise HubRefusedError(
            409, "bad_item: a key of this thread is no item"
        ) from None
    times = {"created_at": stored["set_at"], "updated_at": stored["set_at"]}
    return {"namespace": [*namespace], "key": key, "value": value, **times}


def _is_alike(labels: Namespace, wanted: Namespace) -> bool:
    return all(each in ("*", label) for label, each in zip(labels, wanted, strict=True))


def _get_score(stored: Mapping[str, Any], scores: Mapping[int, float]) -> float | None:
    """Return the score of the present value: the hub finds past values, too.

    A value that ends has a later seq in the list than in a search.
    """
    latest = max(scores, default=None) if stored["expires_at"] else stored["seq"]
    return None if latest is None else scores.get(latest)


async def _search_words(api: ApiCaller, query: str) -> dict[str, dict[int, float]]:
    """Return scores by key and seq; words of a long query are left out at its end."""
    words = re.sub(r'[":]', " ", query)[:_QUERY].split()[:_WORDS]
    path = f"{build_path('threads', STORE)}/search"
    found: dict[str, dict[int, float]] = {}
    while words:
        body = {"query": " ".join(words), "kinds": ["value"], "limit": _HITS}
        try:
            hits = (await api.call("POST", path, body))["items"]
        except HubRefusedError as refused:
            if refused.status != 422:
                raise
            # The hub counts parts of a word, too.
            words = words[: len(words) // 2]
        else:
            for hit in hits:
                found.setdefault(hit["key"], {})[hit["seq"]] = hit["score"]
            break
    return found

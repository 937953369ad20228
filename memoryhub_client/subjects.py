"""Subjects: the people a memory is about, and what is remembered of one."""

from __future__ import annotations

from typing import Literal, Unpack

from memoryhub_client.requests import Download, Once, Request, ask, at, read, write

Basis = Literal[
    "accuracy_contested", "unlawful_objected", "claims", "objection_pending"
]


def resolve(user_id: str) -> Request:
    return ask(at("subjects:resolve"), {"user_id": user_id})


def readmit(user_id: str, **fields: Unpack[Once]) -> Request:
    return write("POST", at("subjects:readmit"), {"user_id": user_id, **fields})


def get(subject: str) -> Request:
    return read(at("subjects", subject))


def memory(subject: str) -> Request:
    """What to load of it at the start, all at one instant."""
    return read(at("subjects", subject, "memory"))


def restrict(subject: str, basis: Basis, **fields: Unpack[Once]) -> Request:
    path = at("subjects", f"{subject}:restrict")
    return write("POST", path, {"basis": basis, **fields})


def unrestrict(subject: str, **fields: Unpack[Once]) -> Request:
    return write("POST", at("subjects", f"{subject}:unrestrict"), fields)


def export(subject: str) -> Download:
    """All that is remembered, as a ZIP. Each is noted, so it is not sent again."""
    path = at("subjects", subject, "export")
    return Download(method="POST", path=path, body={}, repeatable=False)

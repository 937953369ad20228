"""Subjects: the people whose memory the hub holds."""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    Download,
    IdempotencyCondition,
    Request,
    ask,
    build_path,
    read,
    write,
)

Basis = Literal[
    "accuracy_contested", "unlawful_objected", "claims", "objection_pending"
]


def resolve(user_id: str) -> Request:
    return ask(build_path("subjects:resolve"), {"user_id": user_id})


def readmit(user_id: str, **fields: Unpack[IdempotencyCondition]) -> Request:
    return write("POST", build_path("subjects:readmit"), {"user_id": user_id, **fields})


def get(subject: str) -> Request:
    return read(build_path("subjects", subject))


def memory(subject: str) -> Request:
    """Read a subject's knowledge to load at the start, all at one instant."""
    return read(build_path("subjects", subject, "memory"))


def restrict(
    subject: str, basis: Basis, **fields: Unpack[IdempotencyCondition]
) -> Request:
    path = build_path("subjects", f"{subject}:restrict")
    return write("POST", path, {"basis": basis, **fields})


def unrestrict(subject: str, **fields: Unpack[IdempotencyCondition]) -> Request:
    return write("POST", build_path("subjects", f"{subject}:unrestrict"), fields)


class ExportFields(TypedDict, total=False):
    #: The signed bundle, which is the default, or files of Markdown to read.
    format: Literal["bundle", "markdown"]


def export(subject: str, **fields: Unpack[ExportFields]) -> Download:
    """Export a subject's memory as a ZIP. Exports are noted, so never repeated."""
    path = build_path("subjects", subject, "export")
    return Download(method="POST", path=path, body=fields, repeatable=False)

"""The journal: the only code that appends events, and what folds them back."""

from memoryhub.journal.log.log import contents, state_at
from memoryhub.journal.log.orders import Address, Birth, Order, Receipt, Request
from memoryhub.journal.writing.writer import (
    name_defect,
    perform,
    run,
    run_async,
    submit,
    writer,
)

__all__ = [
    "Address",
    "Birth",
    "Order",
    "Receipt",
    "Request",
    "contents",
    "name_defect",
    "perform",
    "run",
    "run_async",
    "state_at",
    "submit",
    "writer",
]

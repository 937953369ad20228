"""The journal: the only code that appends events, and the code that folds them."""

from memoryhub.journal.log.log import fold_thread
from memoryhub.journal.log.orders import (
    Address,
    KeyedRequest,
    NewThread,
    Order,
    OrderReceipt,
)
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
    "KeyedRequest",
    "NewThread",
    "Order",
    "OrderReceipt",
    "fold_thread",
    "name_defect",
    "perform",
    "run",
    "run_async",
    "submit",
    "writer",
]

"""Form of a project's prices: a row for each model, and rows for further models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.http import QueryDict

from memoryhub.errors import InvalidError
from memoryhub.model_settings import Price
from memoryhub.models.projects import (
    MOST_CURRENCY_CHARS,
    MOST_MODEL_CHARS,
    MOST_PRICES,
    Project,
)
from memoryhub.queries.turns import prices
from memoryhub.queries.turns.prices import PriceTable
from memoryhub.services.access import projects

#: The field that only this form has.
FIELD: Final = "currency"
PROBLEM: Final = (
    "Give each model a name of its own and a price of input with a point, as 0.40. "
    "Empty prices of cached input and of output are as the input's."
)
#: Names of the inputs in a row.
_COLUMNS: Final = ("model", "price", "cached", "answers")
#: Empty rows below the models.
_FREE: Final = 2
_AMOUNT: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFormRow:
    """Inputs of a model, as text."""

    model: str = ""
    price: str = ""
    cached: str = ""
    answers: str = ""
    #: Names of the inputs that were refused.
    wrong: frozenset[str] = frozenset()

    def parse(self) -> Price:
        """Parse the prices. Raises InvalidError."""
        return Price(
            price=_parse_amount(self.price),
            cached=_parse_amount(self.cached) if self.cached else None,
            answers=_parse_amount(self.answers) if self.answers else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceForm:
    """Form of the prices, with the server's prices where the project sets none."""

    currency: str
    rows: Sequence[PriceFormRow]
    #: The prices that hold now.
    table: PriceTable
    problem: str = ""
    is_currency_wrong: bool = False
    most_currency: int = MOST_CURRENCY_CHARS


def build_form(project: Project) -> PriceForm:
    """Build the form with the project's own prices."""
    table = prices.get_table(project)
    rows = [
        PriceFormRow(
            model=name,
            price=_render_amount(price.price),
            cached=_render_amount(price.cached),
            answers=_render_amount(price.answers),
        )
        for name, price in (table.models.items() if table.own else ())
    ]
    return PriceForm(currency=table.currency, rows=_add_free(rows), table=table)


def build_refused_form(project: Project, sent: QueryDict) -> PriceForm:
    """Build the form as typed, with the problem."""
    currency, rows = str(sent[FIELD]).strip(), _read_rows(sent)
    names = [row.model for row in rows]
    marked = [
        replace(row, wrong=_find_wrong(row, above=names[:at]))
        for at, row in enumerate(rows)
    ]
    return PriceForm(
        currency=currency[: MOST_CURRENCY_CHARS + 1],
        rows=_add_free(marked),
        table=prices.get_table(project),
        problem=PROBLEM,
        is_currency_wrong=bool(currency)
        and not projects.is_short(currency, MOST_CURRENCY_CHARS),
    )


def save_form(project: Project, sent: QueryDict, *, actor: str) -> None:
    """Save the prices as sent; without a row the server's prices hold again.

    Raises InvalidError.
    """
    rows = _read_rows(sent)
    models = [(row.model, row.parse()) for row in rows]
    projects.set_prices(project, currency=str(sent[FIELD]), models=models, actor=actor)


def _read_rows(sent: QueryDict) -> list[PriceFormRow]:
    """Read the rows that are not empty."""
    columns = [sent.getlist(name)[: 2 * MOST_PRICES] for name in _COLUMNS]
    rows = [[text.strip() for text in row] for row in zip(*columns, strict=False)]
    return [
        PriceFormRow(**dict(zip(_COLUMNS, row, strict=True)))
        for row in rows
        if any(row)
    ]


def _find_wrong(row: PriceFormRow, *, above: Sequence[str]) -> frozenset[str]:
    """Find the inputs of a row that saving refuses; `above` are the names before it."""
    amounts = {"price": row.price or "-", "cached": row.cached, "answers": row.answers}
    wrong = {name for name, text in amounts.items() if text and not _is_amount(text)}
    if row.model in above or not projects.is_short(row.model, MOST_MODEL_CHARS):
        wrong.add("model")
    return frozenset(wrong)


def _add_free(rows: Sequence[PriceFormRow]) -> list[PriceFormRow]:
    free = min(_FREE, max(0, MOST_PRICES - len(rows)))
    return [*rows, *[PriceFormRow()] * free]


def _is_amount(text: str) -> bool:
    return _AMOUNT.fullmatch(text) is not None


def _parse_amount(text: str) -> float:
    if not _is_amount(text):
        raise InvalidError(loc="price", least=0)
    return float(text)


def _render_amount(price: float | None) -> str:
    if price is None:
        return ""
    return f"{price:.6f}".rstrip("0").rstrip(".")

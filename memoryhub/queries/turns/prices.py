"""Prices: a project's table of prices by model, else the server's. Never writes.

Costs are estimates: the hub counts tokens with its own tokenizers, and takes the prefix
that two requests share as cached. See decision 97.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from django.conf import settings
from django.db.models import OuterRef, Subquery, Sum

from memoryhub.kernel.packing import prefixes
from memoryhub.model_settings import Price
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadLabel

#: Label of a thread that names the model of its agent.
MODEL_LABEL: Final = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedCost:
    """An estimated cost, by one row of a price table."""

    amount: float
    #: Empty: no currency is named.
    currency: str
    #: Name of the row; empty: several rows.
    model: str
    #: Whether nothing named the model, so that the first row was taken.
    assumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Prices for a million tokens by model; the first is the default."""

    currency: str
    models: Mapping[str, Price]
    #: Whether the project sets its own prices.
    own: bool

    def compute_cost(
        self, tokens: int, prefix: int, answers: int, *, model: str | None = None
    ) -> EstimatedCost | None:
        """Compute what requests and answers cost; None without a price.

        A model that has no row costs what the first row says.
        """
        if not self.models:
            return None
        assumed = model not in self.models
        name = next(iter(self.models)) if model is None or assumed else model
        price = self.models[name]
        amount = prefixes.compute_cost(
            tokens, prefix, price=price.price, cached_price=price.cached_price
        )
        return EstimatedCost(
            amount=amount + price.compute_cost(0, answers),
            currency=self.currency,
            model=name,
            assumed=assumed,
        )


def get_table(project: Project) -> PriceTable:
    """Return the project's prices, or the server's if the project sets none."""
    if not project.prices:
        rows = dict(sorted(settings.PRICES.items()))
        return PriceTable(currency="", models=rows, own=False)
    stored = orjson.loads(project.prices)
    models = {name: Price(**price) for name, price in stored["models"]}
    return PriceTable(currency=stored["currency"], models=models, own=True)


def find_model(thread: Thread) -> str | None:
    """Return the model that the thread's label names; None without the label."""
    return _to_name(orjson.loads(thread.labels).get(MODEL_LABEL))


def compute_thread_cost(table: PriceTable, thread: Thread) -> EstimatedCost | None:
    """Compute the cost of a thread's own turns, without those of its ancestors."""
    return table.compute_cost(
        thread.request_tokens,
        thread.prefix_tokens,
        thread.answer_tokens,
        model=find_model(thread),
    )


def get_subject_cost(table: PriceTable, subject: Subject) -> EstimatedCost | None:
    """Compute the cost of all turns in a person's threads. One query, or none."""
    if not table.models:
        return None
    label = ThreadLabel.objects.filter(thread=OuterRef("pk"), name=MODEL_LABEL)
    sums = (
        Thread.objects.filter(subject=subject, turn_count__gt=0)
        .annotate(model=Subquery(label.values("value")[:1]))
        .order_by()
        .values_list("model")
        .annotate(Sum("request_tokens"), Sum("prefix_tokens"), Sum("answer_tokens"))
    )
    found = [
        cost
        for model, *tokens in sums
        if (cost := table.compute_cost(*tokens, model=model)) is not None
    ]
    names = {each.model for each in found}
    return EstimatedCost(
        amount=sum(each.amount for each in found),
        currency=table.currency,
        model=names.pop() if len(names) == 1 else "",
        assumed=any(each.assumed for each in found),
    )


def _to_name(label: Any) -> str | None:
    return label if isinstance(label, str) else None

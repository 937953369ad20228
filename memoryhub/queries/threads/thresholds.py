"""Thresholds that a project's owner may set, with their defaults. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from django.db.models import F, Value
from django.db.models.functions import Coalesce

from memoryhub.models.projects import Project


class ThresholdBounds(NamedTuple):
    """The default of a threshold, and its least and greatest value."""

    default: int
    least: int
    most: int


#: Bounds by column of the project. A number called `most` is still well.
BOUNDS: Final[Mapping[str, ThresholdBounds]] = {
    "most_refaults": ThresholdBounds(2, 0, 1_000),
    "least_resident_percent": ThresholdBounds(50, 0, 100),
    "most_refused_fetches": ThresholdBounds(2, 0, 100_000),
    "least_hit_percent": ThresholdBounds(60, 0, 100),
    "most_refusals": ThresholdBounds(99, 0, 1_000_000),
    "most_model_failures": ThresholdBounds(2, 0, 1_000_000),
}


class Thresholds(NamedTuple):
    """Thresholds of a project; each default holds where the owner set none."""

    most_refaults: int
    least_resident_percent: int
    most_refused_fetches: int
    least_hit_percent: int
    most_refusals: int
    most_model_failures: int

    @classmethod
    def from_values(cls, values: Mapping[str, int | None]) -> Self:
        return cls(
            **{
                name: default if (value := values[name]) is None else value
                for name, (default, _, _) in BOUNDS.items()
            }
        )

    @classmethod
    def from_project(cls, project: Project) -> Self:
        return cls.from_values({name: getattr(project, name) for name in BOUNDS})


DEFAULTS: Final = Thresholds.from_values(dict.fromkeys(BOUNDS))


def build_expression(name: str) -> Coalesce:
    """Build the threshold of the project of a row, for a condition on rows."""
    return Coalesce(F(f"project__{name}"), Value(BOUNDS[name].default))

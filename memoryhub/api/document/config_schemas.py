"""Schemas of a thread's limits and paging settings."""

from __future__ import annotations

from typing import Any, Self

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from memoryhub.api.document.fields import (
    FieldRefusedError,
    In,
    MaxKeyBytes,
    MaxSlots,
    Out,
    RetentionDays,
    TtlSeconds,
    build_bounded_type,
)
from memoryhub.kernel.memory.nouns import LIMITS
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.paging_config import (
    DECIMALS,
    RANGES,
    Confidence,
    Format,
    GuardMode,
    InstructionsRole,
    Mode,
    Policy,
    RecallScope,
    TokenizerName,
    build_settings,
)
from memoryhub.kernel.state.state import DEFAULT_MAX_SLOTS


def _add_ranges(schema: dict[str, Any]) -> None:
    """Add the allowed range of each setting to the schema."""
    for name, (least, most) in RANGES.items():
        number, _ = schema["properties"][name]["anyOf"]
        number |= {"minimum": least, "maximum": most}


class ConfigIn(In, ThreadConfig):
    """Limits and paging of a thread. Settings are also checked against each other."""

    model_config = ConfigDict(json_schema_extra=_add_ranges)

    max_slots: MaxSlots | None = None
    retention_idle_days: RetentionDays | None = None
    __annotations__ |= {
        name: build_bounded_type(limit) for name, limit in LIMITS.items()
    }
    max_key_bytes: MaxKeyBytes | None = None
    default_ttl_seconds: TtlSeconds | None = Field(
        None, description="Of keys set without an expiry; absent: the project's."
    )
    tokenizer: TokenizerName | None = Field(
        None,
        description="Fixed when the thread is made; absent: `est/1`, run here, as is "
        "`o200k_base` with the extra `tokens`.",
    )
    instructions_role: InstructionsRole | None = Field(
        None,
        description="Who speaks the head of a request: `system` unless a server "
        "takes only `developer`.",
    )
    format: Format | None = Field(
        None,
        description="Whose API the requests are for; absent: `chat`.",
    )
    recall: RecallScope | None = Field(
        None,
        description="Where a user's turn looks for texts to bring along: in the "
        "`thread` (absent), in all threads of the `subject`, or nowhere.",
    )

    @field_validator(*RANGES)
    @classmethod
    def in_its_range(cls, number: float | None, info: ValidationInfo) -> float | None:
        assert info.field_name is not None
        least, most = RANGES[info.field_name]
        if number is None:
            return None
        if not least <= number <= most or round(number, DECIMALS) != number:
            raise FieldRefusedError("value")
        return number


class ConfigOut(Out):
    """Effective limits and settings of the thread."""

    max_slots: int
    retention_idle_days: int | None
    __annotations__ |= dict.fromkeys(LIMITS, int)
    default_ttl_seconds: int | None
    tokenizer: str
    instructions_role: InstructionsRole
    format: Format
    budget_tokens: int
    reserved_tokens: int
    evict_at: float
    evict_to: float
    pin_share: float
    claim_share: float
    l1_pages: int
    auto_pin_turns: int
    auto_pin_system: bool
    auto_pin_claims: bool
    cooldown_turns: int
    protect_turns: int
    policy: Policy
    lower_first: bool
    map_slots: bool
    blocks: bool
    model_tools: bool
    search_tool: bool
    recall: RecallScope
    recall_tokens: int
    observe: bool
    observe_at: float
    observe_cycles: int
    observe_keep_tokens: int
    reflect_at: float
    mode: Mode
    guard: GuardMode
    tlb_entries: int
    max_faults_per_turn: int
    max_fault_tokens_per_turn: int
    fault_confidence_threshold: Confidence

    @classmethod
    def from_config(cls, config: ThreadConfig) -> Self:
        settings = build_settings(config)
        found = {name: getattr(settings, name) for name in settings.__slots__}
        found["recall_tokens"] = settings.recall_room
        found |= {n: getattr(config, n) or limit.default for n, limit in LIMITS.items()}
        return cls(
            max_slots=config.max_slots or DEFAULT_MAX_SLOTS,
            retention_idle_days=config.retention_idle_days,
            default_ttl_seconds=config.default_ttl_seconds,
            **found,
        )

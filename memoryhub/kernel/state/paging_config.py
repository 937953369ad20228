"""Paging settings of a thread: the fields that were sent, and the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from memoryhub.errors import InvalidError, TokensRequiredError
from memoryhub.kernel.state.bodies import Body, Number, Share, Switch

Policy = Literal["importance_lru", "lru", "modality_lru", "sieve"]
Mode = Literal["strict", "relaxed", "passive"]
Confidence = Literal["explicit", "referenced", "speculative"]
#: Tokenizers of a thread; all but the first need an installed extra.
TokenizerName = Literal["est/1", "o200k_base"]
#: Texts that a turn may recall unasked: those of the thread, of all threads of its
#: subject, or none.
RecallScope = Literal["thread", "subject", "off"]
#: Role of a request's first message: model servers know one role or the other.
InstructionsRole = Literal["system", "developer"]
#: Format of requests: the model API that takes them.
Format = Literal["chat", "responses", "anthropic", "gemini"]
#: Strictness with which calls of an agent's own tools are checked.
GuardMode = Literal["off", "default", "smooth", "strict"]
GUARD_MODES: tuple[str, ...] = get_args(GuardMode)
FORMATS: tuple[str, ...] = get_args(Format)
RECALL_SCOPES: tuple[str, ...] = get_args(RecallScope)
INSTRUCTIONS_ROLES: tuple[str, ...] = get_args(InstructionsRole)
POLICY_NAMES: tuple[str, ...] = get_args(Policy)
MODES: tuple[str, ...] = get_args(Mode)
#: The tokenizer that is always at hand.
ESTIMATED: TokenizerName = "est/1"
TOKENIZERS: tuple[str, ...] = get_args(TokenizerName)
#: Settings that never change: stored sizes were counted with them.
FIXED = ("tokenizer",)
#: Least sure first.
CONFIDENCES: tuple[str, ...] = tuple(reversed(get_args(Confidence)))


#: Most tokens that a turn recalls by default. Beyond them hardly any text is of use,
#: and no provider has recalled texts in its prompt cache.
MOST_UNASKED = 4_000


class PagingConfig(Body):
    """A thread's own choices; None leaves the default of `PagingSettings`."""

    #: Fixed when the thread is made: another tokenizer would count differently.
    tokenizer: TokenizerName | None = None
    instructions_role: InstructionsRole | None = None
    format: Format | None = None
    budget_tokens: Number | None = None
    reserved_tokens: Number | None = None
    evict_at: Share | None = None
    evict_to: Share | None = None
    pin_share: Share | None = None
    claim_share: Share | None = None
    l1_pages: Number | None = None
    auto_pin_turns: Number | None = None
    auto_pin_system: Switch | None = None
    auto_pin_claims: Switch | None = None
    cooldown_turns: Number | None = None
    protect_turns: Number | None = None
    policy: Policy | None = None
    lower_first: Switch | None = None
    map_slots: Switch | None = None
    #: Requests carry the subject's blocks. Absent in older journals.
    blocks: Switch | None = None
    #: The model may keep what it learns.
    model_tools: Switch | None = None
    #: The model may search: absent in older journals, which offered the tool.
    search_tool: Switch | None = None
    recall: RecallScope | None = None
    #: Most tokens of recall; by default an eighth of `usable`, up to 4,000 tokens.
    recall_tokens: Number | None = None
    #: Older messages become observations.
    observe: Switch | None = None
    observe_at: Share | None = None
    observe_cycles: Number | None = None
    observe_keep_tokens: Number | None = None
    reflect_at: Share | None = None
    mode: Mode | None = None
    guard: GuardMode | None = None
    tlb_entries: Number | None = None
    max_faults_per_turn: Number | None = None
    max_fault_tokens_per_turn: Number | None = None
    fault_confidence_threshold: Confidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingSettings:
    """Effective settings of a thread, defaults filled in (source: paging document)."""

    tokenizer: TokenizerName = ESTIMATED
    instructions_role: InstructionsRole = "system"
    format: Format = "chat"
    budget_tokens: int = 128_000
    reserved_tokens: int = 4_000
    evict_at: float = 0.85
    evict_to: float = 0.70
    pin_share: float = 0.60
    claim_share: float = 0.20
    l1_pages: int = 100
    auto_pin_turns: int = 3
    auto_pin_system: bool = True
    auto_pin_claims: bool = True
    cooldown_turns: int = 3
    protect_turns: int = 2
    policy: Policy = "importance_lru"
    lower_first: bool = True
    map_slots: bool = True
    blocks: bool = False
    model_tools: bool = False
    search_tool: bool = True
    recall: RecallScope = "thread"
    recall_tokens: int | None = None
    observe: bool = False
    #: Share of the window at which waiting observations enter requests.
    observe_at: float = 0.90
    #: Number of observations to make until that share is reached.
    observe_cycles: int = 4
    #: Tokens of newest messages that stay verbatim at that point.
    observe_keep_tokens: int = 6_000
    #: Share of the window at which the log is condensed.
    reflect_at: float = 0.20
    mode: Mode = "strict"
    guard: GuardMode = "off"
    tlb_entries: int = 512
    max_faults_per_turn: int = 3
    max_fault_tokens_per_turn: int = 8_192
    fault_confidence_threshold: Confidence = "referenced"
    #: Tokens of the agent's own tools; derived, not a choice.
    tools_tokens: int = 0
    #: Tokens of the blocks that requests carry; each turn sets the number.
    blocks_tokens: int = 0
    #: Tokens of the observation log that requests carry; activation sets the number.
    log_tokens: int = 0
    #: Tokens kept free for recall; each turn sets the number.
    promised_tokens: int = 0

    @property
    def usable(self) -> int:
        """Tokens that frames may hold together."""
        beside = self.tools_tokens + self.blocks_tokens + self.log_tokens
        beside += self.promised_tokens
        return self.budget_tokens - self.reserved_tokens - beside

    @property
    def recall_room(self) -> int:
        """Most tokens that a turn's unasked recall may take."""
        if self.recall == "off":
            return 0
        default = min(self.usable // 8, MOST_UNASKED)
        return default if self.recall_tokens is None else self.recall_tokens

    @property
    def recall_asked(self) -> int | None:
        """Recall tokens that the thread asks for; None for the default."""
        return None if self.recall == "off" else self.recall_tokens

    @property
    def promise(self) -> int:
        """Tokens to keep free for recall: those asked for, at most half of the room.

        The room disregards blocks and the log, which change with turns, so that
        consecutive turns promise the same number.
        """
        if self.mode == "passive":
            return 0
        room = self.budget_tokens - self.reserved_tokens - self.tools_tokens
        return min(self.recall_asked or 0, room // 2)

    @property
    def high(self) -> float:
        """Used tokens beyond which an eviction run begins."""
        return self.evict_at * self.usable

    @property
    def low(self) -> int:
        """Used tokens that an eviction run goes down to."""
        return int(self.usable * self.evict_to)

    @property
    def pinnable(self) -> float:
        """Most tokens of explicit pins and the system prompt together."""
        return self.pin_share * self.usable

    @property
    def largest(self) -> float:
        """Most tokens of a mapped level of a page."""
        return (1 - self.pin_share) * self.usable

    def require_tokens(self, counted_by: str | None) -> None:
        """Raise TokensRequiredError if another tokenizer than the thread's counted."""
        if counted_by not in (None, self.tokenizer):
            raise TokensRequiredError(self.tokenizer, largest=self.largest)


#: Names of the settings that a thread may choose.
CHOICES = tuple(PagingConfig.model_fields)


def build_settings(
    config: PagingConfig,
    *,
    tools_tokens: int = 0,
    blocks_tokens: int = 0,
    log_tokens: int = 0,
) -> PagingSettings:
    """Derive a thread's settings from its config and what stands in its head."""
    chosen = {name: getattr(config, name) for name in CHOICES}
    kept = {name: value for name, value in chosen.items() if value is not None}
    return PagingSettings(
        **kept,
        tools_tokens=tools_tokens,
        blocks_tokens=blocks_tokens,
        log_tokens=log_tokens,
    )


#: Smallest and largest value of each numeric setting.
RANGES: dict[str, tuple[float, float]] = {
    "budget_tokens": (2_000, 2_000_000),
    "reserved_tokens": (0, 1_000_000),
    "evict_at": (0.1, 1.0),
    "evict_to": (0.05, 1.0),
    "pin_share": (0.0, 0.9),
    "claim_share": (0.0, 0.9),
    "l1_pages": (1, 10_000),
    "recall_tokens": (0, 1_000_000),
    "observe_at": (0.3, 1.0),
    "observe_cycles": (1, 20),
    "observe_keep_tokens": (100, 1_000_000),
    "reflect_at": (0.02, 0.5),
    "auto_pin_turns": (0, 100),
    "cooldown_turns": (1, 20),
    "protect_turns": (1, 20),
    "tlb_entries": (0, 4_096),
    "max_faults_per_turn": (0, 1_000),
    "max_fault_tokens_per_turn": (0, 2_000_000),
}
#: Decimals of a share.
DECIMALS = 4
#: Tokens that rules, manifest and tools take; passive mode has none of the three.
LEAST_RESERVED = 800


def check(settings: PagingSettings) -> None:
    """Raise InvalidError naming the first setting that is out of its range."""
    for name, (least, most) in RANGES.items():
        value = getattr(settings, name)
        if value is None:
            continue
        if not least <= value <= most or round(value, DECIMALS) != value:
            says = f"a number from {least:g} to {most:g}, at most {DECIMALS} decimals"
            raise InvalidError(loc=f"config.{name}", allowed=says)
    least_reserved = 0 if settings.mode == "passive" else LEAST_RESERVED
    half = settings.budget_tokens // 2
    if not least_reserved <= settings.reserved_tokens <= half:
        says = f"an integer from {least_reserved} to {half}, half of `budget_tokens`"
        raise InvalidError(loc="config.reserved_tokens", allowed=says)
    if settings.evict_to >= settings.evict_at:
        says = f"a number below `evict_at`, which is {settings.evict_at:g}"
        raise InvalidError(loc="config.evict_to", allowed=says)

"""Paging on plain dictionaries: residency, pins, scores and eviction."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from typing import Any, Self

#: Each a tuple: a word, a page id, then what that step has to say.
Steps = list[tuple[Any, ...]]
#: Place of a page among those that need room; None for no place.
Own = tuple[int, int] | None

PRIORITY = {
    "claim": 0.1,
    "index": 0.2,
    "procedure": 0.3,
    "summary": 0.4,
    "artifact": 0.6,
    "transcript": 0.7,
}
SURE = {
    "speculative": 0,
    "resolve_reference": 1,
    "tool_prereq": 1,
    "user_requested_recall": 2,
}
WORDS = ["speculative", "referenced", "explicit"]


class No(Exception):
    """Refusal of a command, by its word."""


class Memory:
    """Model of a working set: places of pages, and evictions for newcomers."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.set = settings
        self.clock = 1
        self.turn = 0
        self.slots = 0
        #: Slots that a fork inherited.
        self.inherited = 0
        self.pages: dict[str, dict[str, Any]] = {}
        self.gone: set[str] = set()
        self.frames: dict[str, dict[str, Any]] = {}
        self.hot: dict[str, dict[str, Any]] = {}
        self.pins: set[str] = set()
        #: The TLB: ids, oldest first.
        self.lru: OrderedDict[str, None] = OrderedDict()
        self.hits = self.misses = 0
        self.past: dict[str, dict[str, Any]] = {}
        self.faults = self.charged = self.refused = 0
        self.user: tuple[str, int] | None = None
        self.users_since = 0
        self.evicted_tokens = 0
        #: Place at which the hand of sieve took a page last.
        self.hand = 0
        #: The page that left last went by its score.
        self.scored = False
        #: (turn, page) of each fault that came too soon, and of those that thrash.
        self.refaults: list[tuple[int, str]] = []
        self.thrashed: dict[str, int] = {}
        self.steps: Steps = []

    def copy(self) -> Self:
        return copy.deepcopy(self)

    # Figures that follow from the settings

    @property
    def usable(self) -> int:
        return int(self.set["budget_tokens"] - self.set["reserved_tokens"])

    @property
    def share(self) -> float:
        return float(self.set["pin_share"] * self.usable)

    @property
    def used(self) -> int:
        return sum(self.weigh_frame(page_id) for page_id in self.frames)

    def weigh_frame(self, page_id: str) -> int:
        return self.weigh(page_id, self.frames[page_id]["level"])

    def weigh(self, page_id: str, level: int, *, recalled: bool = False) -> int:
        """Return the tokens of a level; `recalled` if mapped as a recalled page."""
        cost = int(self.pages[page_id]["costs"][level])
        if page_id in self.frames:
            recalled = recalled or self.frames[page_id]["recalled"]
        if page_id == "system-prompt" or self.pages[page_id]["role"] == "system":
            return cost
        if recalled or not page_id.startswith("slot-"):
            return cost + 88 + len(page_id)
        return cost + (16 if level else 0)

    # Pins

    def is_pinned(self, page_id: str) -> bool:
        return page_id in self.pins or (
            page_id == "system-prompt" and self.set["auto_pin_system"]
        )

    def counted_tokens(self) -> int:
        return sum(
            self.weigh_frame(each) for each in self.frames if self.is_pinned(each)
        )

    def pinned(self, more: int = 0) -> dict[str, str]:
        left = self.share - more
        kept = dict.fromkeys(self.pins, "explicit")
        left -= sum(self.weigh_frame(page_id) for page_id in self.pins)
        newest = sorted(self.frames, key=lambda each: -self.pages[each]["created"])
        for rule, wanted, share in self._wishes(newest):
            room = min(left, share)
            for page_id in wanted:
                if page_id not in kept and self.weigh_frame(page_id) <= room:
                    kept[page_id] = rule
                    room -= self.weigh_frame(page_id)
                    left -= self.weigh_frame(page_id)
        return kept

    def _wishes(self, newest: list[str]) -> list[tuple[str, list[str], float]]:
        pages, settings = self.pages, self.set
        wishes: list[tuple[str, list[str], float]] = []
        if settings["auto_pin_system"]:
            own = [p for p in newest if p == "system-prompt"]
            theirs = [
                p for p in newest if pages[p]["role"] == "system" and p not in own
            ]
            theirs.sort(key=lambda each: self.frames[each]["at"])
            wishes.append(("system", own + theirs, self.share))
        if self.user:
            spoken, since = self.user
            others = [p for p in newest if pages[p]["created"] > since]
            first = [p for p in newest if p == spoken]
            wishes.append(("exchange", first + others, self.share))
        since = self.turn - settings["auto_pin_turns"] + 1
        recent = [p for p in newest if pages[p]["turn"] >= since]
        wishes.append(("recent", recent, self.share))
        if settings["auto_pin_claims"]:
            claims = [p for p in newest if pages[p]["type"] == "claim"]
            claims.sort(key=lambda each: -pages[each]["importance"])
            wishes.append(("claim", claims, settings["claim_share"] * self.usable))
        return wishes

    # Precedence: what comes before what in a request

    def rank(self, page_id: str) -> tuple[int, int]:
        """Return 0 pin, 1 question, 2 fetched now, 3 fetched for it, 4 said since."""
        if self.pinned().get(page_id) in ("explicit", "system"):
            return 0, 0
        if self.user and page_id == self.user[0]:
            return 1, 0
        frame, said = self.frames[page_id], self.said_since(page_id)
        # A message of the exchange that never left was not fetched.
        if frame["recalled"] and self.turn and (not said or page_id in self.past):
            if self.past.get(page_id, no_past())["fault"] == self.turn:
                return 2, 0
            if self.user and frame["at"] > self.user[1]:
                return 3, 0
        return (4, -int(page_id.removeprefix("slot-"))) if said else (5, 0)

    def said_since(self, page_id: str) -> bool:
        """Return whether this is a message since the exchange began."""
        if not page_id.startswith("slot-"):
            return False
        begin = int(self.user[0].removeprefix("slot-")) if self.user else self.slots - 1
        return int(page_id.removeprefix("slot-")) >= begin

    def staying(self, more: int = 0) -> set[str]:
        due = {each for each in self.frames if 1 <= self.rank(each)[0] <= 3}
        return {*self.pinned(more)} | due

    def below(self, own: tuple[int, int]) -> list[str]:
        def order(page_id: str) -> tuple[int, int, int, int]:
            frame, (rank, number) = self.frames[page_id], self.rank(page_id)
            slot = page_id.removeprefix("slot-")
            place = frame["joined"] or frame["at"]
            return -rank, -number, place, int(slot) if slot.isdigit() else 0

        return sorted((p for p in self.frames if self.rank(p) > own), key=order)

    def most(self, page_id: str, own: tuple[int, int] | None) -> float:
        if own is None:
            return self.largest(page_id)
        above = [p for p in self.frames if p != page_id and self.rank(p) <= own]
        return self.usable - sum(map(self.weigh_frame, above))

    # Policies

    def rate_value(self, page_id: str) -> float:
        page = self.pages[page_id]
        importance: float = page["importance"]
        return 0.5 * importance + 0.5 * (1 - PRIORITY[page["type"]])

    def windows(self, page_id: str) -> tuple[float, bool]:
        """Return the penalty, and whether the page is protected."""
        past, total, inside = self.past.get(page_id), 0.0, False
        if past is None:
            return 0.0, False
        if past["fault"] is not None:
            ago = self.turn - past["fault"]
            if ago < self.set["protect_turns"]:
                total, inside = 1 - ago / self.set["protect_turns"], True
        if past["back"] and past["evicted"] is not None:
            ago = self.turn - past["evicted"]
            if ago < self.set["cooldown_turns"]:
                total, inside = (
                    total + 0.5 * (1 - ago / self.set["cooldown_turns"]),
                    True,
                )
        return min(1.0, total), inside

    def walk(self) -> dict[str, float]:
        """Number the frames as the hand takes them: it clears a bit, or takes."""
        ring = sorted(self.frames, key=lambda each: self.frames[each]["at"])
        ring.sort(key=lambda each: self.frames[each]["at"] <= self.hand)
        bits = {each for each in ring if self.frames[each]["visited"]}
        taken: list[str] = []
        while len(taken) < len(ring):
            for each in ring:
                if each in bits:
                    bits.remove(each)
                elif each not in taken:
                    taken.append(each)
        return {each: float(n) for n, each in enumerate(taken)}

    def move_hand(self, page_id: str) -> None:
        """Go from place to place to a page without the bit, and clear what is met."""
        ring = sorted(self.frames, key=lambda each: self.frames[each]["at"])
        ring.sort(key=lambda each: self.frames[each]["at"] <= self.hand)
        for each in [*ring, *ring]:
            if each == page_id and not self.frames[each]["visited"]:
                break
            self.frames[each]["visited"] = False
        self.hand = self.frames[page_id]["at"]

    def keep(self) -> dict[str, float]:
        if self.set["policy"] == "sieve":
            return self.walk()
        order = sorted(self.frames, key=lambda each: self.frames[each]["referenced"])
        scores = {}
        for rank, page_id in enumerate(order):
            recency = rank / (len(order) - 1) if len(order) > 1 else 0.0
            scores[page_id] = recency
            # All pages of the model are texts, whose factor is 1.
            if self.set["policy"] != "lru":
                scores[page_id] = (
                    0.4 * recency
                    + 0.4 * self.rate_value(page_id)
                    + 0.2 * self.windows(page_id)[0]
                )
        return scores

    def keep_hot(self, page_id: str) -> float:
        page = self.hot[page_id]
        if self.set["policy"] in ("lru", "sieve"):
            return float(page["referenced"])
        often = min(1.0, math.log(1 + page["references"]) / 10)
        idle: int = self.turn - page["turn"]
        return (
            0.3 / (1 + idle)
            + 0.2 * often
            + 0.3 * self.rate_value(page_id)
            + 0.2 * self.windows(page_id)[0]
        )

    # Steps

    def step(self, *step: Any) -> None:
        self.steps.append(step)
        self.clock += 1

    def look_up(self, page_id: str) -> str:
        """Look a page up, counted; a page found becomes the newest."""
        hit = page_id in self.lru
        self.hits, self.misses = self.hits + hit, self.misses + (not hit)
        if page_id in self.pages:
            self.touch(page_id)
        return "hit" if hit else "miss"

    def touch(self, page_id: str) -> None:
        if self.set["tlb_entries"]:
            self.lru[page_id] = None
            self.lru.move_to_end(page_id)
        while len(self.lru) > self.set["tlb_entries"]:
            self.lru.popitem(last=False)

    def displaced(self) -> str | None:
        if len(self.hot) < self.set["l1_pages"]:
            return None
        return min(self.hot, key=lambda p: (self.keep_hot(p), self.hot[p]["since"], p))

    def heat(self, page_id: str, was: dict[str, Any] | None = None) -> None:
        was = was or self.hot.get(page_id)
        self.hot[page_id] = {
            "since": self.clock,
            "referenced": was["referenced"] if was else self.clock,
            "turn": was["turn"] if was else self.turn,
            "references": was["references"] if was else 0,
        }

    def frame(
        self, page_id: str, level: int, *, recalled: bool = False, moves: bool = False
    ) -> None:
        before = self.frames.get(page_id)
        was = before or self.hot.pop(page_id, None)
        self.frames[page_id] = {
            "level": level,
            "at": before["at"] if before and not moves else self.clock,
            "joined": before["joined"] if before and not moves else 0,
            "referenced": self.clock,
            "turn": self.turn,
            "references": (was["references"] if was else 0) + 1,
            "recalled": recalled or bool(before and before["recalled"]),
            "visited": bool(before) and self.set["policy"] == "sieve",
        }
        if not before and page_id in self.past:
            self.past[page_id]["back"] = True

    def use(self, page_id: str) -> None:
        for tier in (self.frames, self.hot):
            if page_id in tier:
                tier[page_id]["referenced"] = self.clock
                tier[page_id]["turn"] = self.turn
                tier[page_id]["references"] += 1
        if page_id in self.frames and self.set["policy"] == "sieve":
            self.frames[page_id]["visited"] = True

    def leave(
        self, page_id: str, lookup: str | None = None, *, scored: bool = False
    ) -> None:
        """Evict a mapped page, in one event with the one before if both went alike."""
        displaced = self.displaced()
        scored = scored and self.set["policy"] != "sieve"
        alike = (self.scored, None) == (scored, lookup)
        last = self.steps[-1] if self.steps and alike else ()
        self.step("evicted", page_id, "L1", displaced, lookup)
        self.scored = scored
        if last[:1] + last[2:3] + last[4:] == ("evicted", "L1", None):
            # One event tells of both, but for the first that the hot list has room for.
            self.clock -= bool(displaced or not last[3])
        if displaced:
            del self.hot[displaced]
        self.evicted_tokens += self.weigh_frame(page_id)
        past = self.past.setdefault(page_id, no_past())
        past.update(evicted=self.turn, total=self.evicted_tokens, back=False)
        self.heat(page_id, self.frames.pop(page_id))
        self.pins.discard(page_id)

    def run(self, tokens: int, sparing: str | None = None) -> None:
        """Run the eviction that `tokens` more call for, if they do."""
        if self.used + tokens <= self.set["evict_at"] * self.usable:
            return
        aim = int(self.set["evict_to"] * self.usable) - tokens
        growing = sparing is not None and self.is_pinned(sparing)
        more = tokens if growing else 0
        moved = -1
        # A lowered page may have taken another's pin: look again.
        while self.used > aim and len(self.steps) != moved:
            moved = len(self.steps)
            self.let_go(aim, more, sparing)

    def let_go(self, aim: int, more: int, sparing: str | None) -> None:
        scores = self.keep()
        kept = self.staying(more) | {sparing}
        order = sorted(
            {*self.frames} - kept,
            key=lambda each: (scores[each], self.frames[each]["at"]),
        )
        lowered = []
        for page_id in [each for each in order if not self.windows(each)[1]]:
            if self.used <= aim:
                return
            # Lowered pages may have changed the pins.
            if page_id in self.staying(more):
                continue
            level = self.lower_level(page_id)
            if level is None:
                if self.set["policy"] == "sieve":
                    self.move_hand(page_id)
                self.leave(page_id, scored=True)
            else:
                self.step("lowered", page_id, level)
                self.frames[page_id]["level"] = level
                lowered.append(page_id)
        rest = [each for each in order if self.windows(each)[1]]
        for page_id in lowered + rest:
            if self.used <= aim:
                return
            if page_id not in self.staying(more):
                self.leave(page_id, scored=True)

    def lower_level(self, page_id: str) -> int | None:
        page, now = self.pages[page_id], self.frames[page_id]["level"]
        if page["type"] in ("claim", "index", "summary") or not self.set["lower_first"]:
            return None
        below = [n for n in range(now + 1, 4) if page["costs"][n] is not None]
        if below and page["tokens"][below[0]] <= page["tokens"][now] / 2:
            return (
                below[0]
                if self.weigh(page_id, below[0]) < self.weigh_frame(page_id)
                else None
            )
        return None

    def room(self, page_id: str, cost: int, own: Own = None) -> bool:
        if cost > self.most(page_id, own):
            return False
        more = cost - (self.weigh_frame(page_id) if page_id in self.frames else 0)
        if self.is_pinned(page_id) and self.counted_tokens() + more > self.share:
            return False
        if more > 0:
            self.run(more, sparing=page_id)
        if own is not None:
            for each in self.below(own):
                if self.used + more > self.usable and each != page_id:
                    self.leave(each)
        return self.used + more <= self.usable

    def largest(self, page_id: str) -> float:
        rest = float((1 - self.set["pin_share"]) * self.usable)
        return max(self.share, rest) if self.is_pinned(page_id) else rest

    def find_fitting_level(
        self, page_id: str, level: int, own: Own = None
    ) -> int | None:
        costs = self.pages[page_id]["costs"]
        recalled = self.returns(page_id, own)
        for each in range(level, 4):
            if costs[each] is None:
                continue
            if self.weigh(page_id, each, recalled=recalled) <= self.most(page_id, own):
                return each
        return None

    def returns(self, page_id: str, own: Own) -> bool:
        """Tell whether a message that is mapped for this comes out of memory."""
        return (
            own is None and page_id.startswith("slot-") and page_id not in self.frames
        )

    def at_most(self, page_id: str, level: int) -> int:
        costs = self.pages[page_id]["costs"]
        return max(each for each in range(level + 1) if costs[each] is not None)

    def compress(self, page_id: str, made: Any) -> None:
        page = self.pages.get(page_id)
        if page is None or made is None or not made.levels:
            return
        news = all(page["costs"][each.level] is None for each in made.levels)
        if made.page_id == page_id and made.version == page["version"] and news:
            self.step("compressed", page_id)
            for each in made.levels:
                page["costs"][each.level] = each.cost
                page["tokens"][each.level] = each.tokens

    def map(
        self, page_id: str, level: int, lookup: str | None = None, own: Own = None
    ) -> bool:
        now = self.frames.get(page_id, {}).get("level")
        fits = self.find_fitting_level(page_id, level, own)
        if now is not None and level <= now and (fits is None or fits >= now):
            return True
        if fits is None:
            return False
        recalled = self.returns(page_id, own)
        weighs = self.weigh(page_id, fits, recalled=recalled)
        if not self.room(page_id, weighs, own):
            return False
        self.step("mapped", page_id, fits, lookup)
        self.frame(page_id, fits, recalled=recalled)
        return True


def no_past() -> dict[str, Any]:
    return {"fault": None, "evicted": None, "total": 0, "back": False}

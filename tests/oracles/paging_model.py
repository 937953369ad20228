"""Paging on plain dictionaries, which the kernel must agree with.

Nothing is shared with the kernel but its commands and the words of its refusals. Each
method takes a command's arguments and returns the steps that must follow.
"""

from __future__ import annotations

from typing import Any

from tests.oracles.paging_memory import SURE, WORDS, Memory, No, Steps, no_past

__all__ = ["Memory", "Model", "No", "Steps"]


class Model(Memory):
    """Model of paging, with a method for each command."""

    def append(self, slot: Any, made: Any) -> None:
        """Append a slot; `made` are the levels of a slot that is too large."""
        page_id, role = f"slot-{self.slots}", slot.type.removeprefix("chat.")
        own = (1, 0) if role == "user" else (4, -self.slots)
        if self.slots and (role == "user" or not self.user):
            self.settle()
        mapped = self.set["map_slots"] and self.room(page_id, slot.cost, own)
        displaced = None if mapped else self.displaced()
        self.step("appended", page_id, mapped, displaced)
        self.slots += 1
        kind = "artifact" if role == "tool" else "transcript"
        importance = {"user": 0.6, "tool": 0.4}.get(role, 0.5)
        self.born(slot, kind, importance, role)
        self.placed(page_id, mapped=mapped, displaced=displaced)
        if role == "user" or not self.user:
            self.mark_joined()
        if role == "user":
            self.user, self.users_since = (page_id, self.clock), self.users_since + 1
        if mapped:
            if slot.cost > self.largest(page_id):
                self.compress(page_id, made)
            return
        if not (self.set["map_slots"] or role == "user"):
            return
        if slot.cost > self.most(page_id, own):
            self.compress(page_id, made)
        fits = self.find_fitting_level(page_id, 0, own) is not None
        if self.set["map_slots"]:
            fits = self.map(page_id, 0, own=own)
        if not fits and role == "user":
            raise No("no_room")

    def settle(self) -> None:
        """Release the tokens that an exchange took beyond the share of a page."""
        rules = self.pinned()
        for page_id in sorted(self.frames, key=lambda each: self.frames[each]["at"]):
            level, cost = self.frames[page_id]["level"], self.weigh_frame(page_id)
            free = rules.get(page_id) not in ("explicit", "system")
            if free and cost > self.largest(page_id):
                fits = self.find_fitting_level(page_id, level)
                if fits is None:
                    self.leave(page_id)
                else:
                    self.step("lowered", page_id, fits)
                    self.frames[page_id]["level"] = fits

    def mark_joined(self) -> None:
        """Mark frames of the ended exchange as joined, from the last user slot on."""
        first = int(self.user[0].removeprefix("slot-")) if self.user else self.slots - 2
        for index in range(first, self.slots - 1):
            if f"slot-{index}" in self.frames:
                self.frames[f"slot-{index}"]["joined"] = self.clock

    def born(self, new: Any, kind: str, importance: float, role: str | None) -> None:
        page_id = new.page_id if hasattr(new, "page_id") else f"slot-{self.slots - 1}"
        self.pages[page_id] = {
            "type": kind,
            "importance": importance,
            "role": role,
            "version": 1,
            "created": self.clock,
            "turn": self.turn,
            "costs": [new.cost, None, None, None],
            "tokens": [new.tokens, None, None, None],
        }
        self.touch(page_id)

    def placed(self, page_id: str, *, mapped: bool, displaced: str | None) -> None:
        if mapped:
            self.frame(page_id, 0)
            return
        self.hot.pop(displaced or "", None)
        self.heat(page_id)

    def create(self, page: Any, *, replace: bool) -> None:
        page_id = page.page_id
        if page_id in self.pages and not replace:
            raise No("name_taken")
        if page_id in self.gone:
            raise No("page_erased")
        if page_id in self.pages:
            self.update(page)
            if page.map:
                self.map(page_id, 0)
            return
        weighs = page.cost + framing(page_id)
        if page.map and self.is_pinned(page_id):
            self.within_share(weighs)
        mapped = page.map and self.room(page_id, weighs)
        displaced = None if mapped else self.displaced()
        self.step("created", page_id, mapped, displaced)
        default = 0.9 if page.type == "summary" else 0.5
        importance = default if page.importance is None else page.importance
        self.born(page, page.type, importance, page.role)
        self.placed(page_id, mapped=mapped, displaced=displaced)

    def within_share(self, more: int) -> None:
        if self.counted_tokens() + more > self.share:
            raise No("pin_budget")

    def require_live(self, page_id: str) -> None:
        if page_id not in self.pages:
            raise No("page_erased" if page_id in self.gone else "page_unknown")

    def update(self, command: Any) -> None:
        page_id = command.page_id
        self.require_live(page_id)
        if command.tokens is not None and page_id.startswith("slot-"):
            raise No("derived_page")
        lookup = "hit" if page_id in self.lru else "miss"
        page = self.pages[page_id]
        if command.cost is not None and page_id in self.frames:
            weighs = command.cost + framing(page_id)
            if self.is_pinned(page_id):
                self.within_share(weighs - self.weigh_frame(page_id))
            if not self.room(page_id, weighs):
                self.leave(page_id)
        self.step("updated", page_id, lookup)
        self.look_up(page_id)
        page["type"] = command.type or page["type"]
        if command.importance is not None:
            page["importance"] = command.importance
        if command.tokens is not None:
            page["version"] += 1
            page["costs"] = [command.cost, None, None, None]
            page["tokens"] = [command.tokens, None, None, None]
            if page_id in self.frames:
                self.frames[page_id]["level"] = 0

    def delete(self, page_id: str) -> None:
        self.require_live(page_id)
        if page_id.startswith("slot-"):
            raise No("derived_page")
        self.step("deleted", page_id, self.look_up(page_id))
        self.drop(page_id)

    def strike(self, index: int) -> None:
        page_id = f"slot-{index}"
        if index >= self.slots:
            raise No("not_found")
        if index < self.inherited:
            raise No("slot_inherited")
        if page_id not in self.gone:
            self.step("struck", page_id, self.look_up(page_id))
            self.drop(page_id)

    def drop(self, page_id: str) -> None:
        for tier in (self.pages, self.frames, self.hot, self.past, self.lru):
            tier.pop(page_id, None)
        self.thrashed.pop(page_id, None)
        self.pins.discard(page_id)
        self.gone.add(page_id)

    def map_page(self, page_id: str, level: int, made: Any) -> None:
        self.require_live(page_id)
        lookup = "hit" if page_id in self.lru else "miss"
        self.compress(page_id, made)
        level = self.at_most(page_id, level)
        now = self.frames.get(page_id, {}).get("level")
        if now is not None and level > now and page_id in self.pinned():
            raise No("pinned")
        if self.is_pinned(page_id):
            held = 0 if now is None else self.weigh_frame(page_id)
            recalled = self.returns(page_id, None)
            self.within_share(self.weigh(page_id, level, recalled=recalled) - held)
        before = len(self.steps)
        if not self.map(page_id, level, lookup):
            raise No("no_room")
        if self.steps[before:]:
            self.look_up(page_id)

    def evict(self, page_id: str) -> None:
        self.require_live(page_id)
        if page_id in self.frames:
            if page_id in self.pinned():
                raise No("pinned")
            self.leave(page_id, self.look_up(page_id))
        elif page_id in self.hot:
            self.step("evicted", page_id, "L2", None, self.look_up(page_id))
            del self.hot[page_id]

    def pin(self, page_id: str) -> None:
        self.require_live(page_id)
        if page_id in self.pins:
            return
        lookup: str | None = "hit" if page_id in self.lru else "miss"
        if page_id not in self.frames:
            if not self.map(page_id, 0, lookup):
                raise No("no_room")
            self.look_up(page_id)
            lookup = None
        if not self.is_pinned(page_id):
            self.within_share(self.weigh_frame(page_id))
        self.step("pinned", page_id, lookup)
        if lookup:
            self.look_up(page_id)
        self.pins.add(page_id)

    def unpin(self, page_id: str) -> None:
        self.require_live(page_id)
        if page_id in self.pins:
            self.step("unpinned", page_id, self.look_up(page_id))
            self.pins.remove(page_id)

    def reference_page(self, page_id: str) -> None:
        self.require_live(page_id)
        self.step("referenced", page_id, self.look_up(page_id))
        self.use(page_id)

    def fault(self, page_id: str, level: int, reason: str, made: Any) -> None:
        lookup = "hit" if page_id in self.lru else "miss"
        if page_id not in self.pages:
            word = "page_erased" if page_id in self.gone else "page_unknown"
            return self.refuse(page_id, word, lookup)
        now = self.frames.get(page_id, {}).get("level")
        if now is not None and now <= level:
            self.step("referenced", page_id, self.look_up(page_id))
            return self.use(page_id)
        before = self.copy()
        self.compress(page_id, made)
        served = self.at_most(page_id, level)
        tokens = self.pages[page_id]["tokens"][served]
        cost = self.weigh(page_id, served, recalled=True)
        broke = self.unaffordable(tokens, reason)
        if broke is None and cost > self.deliverable(page_id):
            broke = "no_room"
        if broke:
            self.__dict__ = before.__dict__
            return self.refuse(page_id, broke, lookup)
        tier = "L0" if now is not None else "L1" if page_id in self.hot else "L2"
        assert self.room(page_id, cost, (2, 0))
        self.step("faulted", page_id, served, tokens, tier, True, None, lookup)
        self.look_up(page_id)
        self.faults, self.charged = self.faults + 1, self.charged + tokens
        self.came_back(page_id)
        # A message that was shortened is shown in full where it was said.
        said = page_id.startswith("slot-") and now is not None
        spoken = said and not self.frames[page_id]["recalled"]
        return self.frame(page_id, served, recalled=not spoken, moves=not spoken)

    def deliverable(self, page_id: str) -> float:
        most = self.most(page_id, (2, 0))
        if not self.is_pinned(page_id):
            return most
        held = self.weigh_frame(page_id) if page_id in self.frames else 0
        return min(most, self.share - self.counted_tokens() + held)

    def came_back(self, page_id: str) -> None:
        past = self.past.setdefault(page_id, no_past())
        times = [at for at in (past["fault"], past["evicted"]) if at is not None]
        if times and self.turn - max(times) <= 5:
            self.refaults.append((self.turn, page_id))
            since = self.evicted_tokens - past["total"]
            away = past["evicted"] is not None and not past["back"]
            if away and since < self.usable:
                self.thrashed[page_id] = self.turn
        past["fault"] = self.turn

    def unaffordable(self, tokens: int, reason: str) -> str | None:
        if SURE[reason] < WORDS.index(self.set["fault_confidence_threshold"]):
            return "fault_confidence"
        if self.faults >= self.set["max_faults_per_turn"]:
            return "fault_budget"
        if self.charged + tokens > self.set["max_fault_tokens_per_turn"]:
            return "fault_tokens"
        return None

    def refuse(self, page_id: str, word: str, lookup: str) -> None:
        if self.refused >= 10:
            raise No(word)
        self.step("refused", None if word == "page_unknown" else page_id, word, lookup)
        self.look_up(page_id)
        self.refused += 1

    def begin_turn(self, made: Any) -> None:
        continues = self.user is not None and not self.users_since
        self.step("began", self.turn + 1, continues)
        self.turn += 1
        self.users_since = 0
        if not continues:
            self.faults = self.charged = self.refused = 0
        for page_id, past in [*self.past.items()]:
            if self.turn - max(past["fault"] or 0, past["evicted"] or 0) > 20:
                del self.past[page_id]
        if self.user and self.user[0] in self.pages:
            if self.find_fitting_level(self.user[0], 0, (1, 0)) != 0:
                self.compress(self.user[0], made)
            self.map(self.user[0], 0, own=(1, 0))

    def amend(self, changes: dict[str, Any]) -> None:
        before = self.set
        after = {**before, **changes}
        if after == before:
            return
        usable = after["budget_tokens"] - after["reserved_tokens"]
        if self.counted_tokens() > after["pin_share"] * usable:
            raise No("pin_budget")
        self.set = {**after, "l1_pages": min(after["l1_pages"], before["l1_pages"])}
        self.shrink()
        self.set = after
        self.step("configured", None)
        while len(self.lru) > after["tlb_entries"]:
            self.lru.popitem(last=False)

    def forked(self, changes: dict[str, Any]) -> None:
        after = {**self.set, **changes}
        usable = after["budget_tokens"] - after["reserved_tokens"]
        if self.counted_tokens() > after["pin_share"] * usable:
            raise No("pin_budget")
        self.set = after
        self.inherited = self.slots
        self.step("forked", None)
        while len(self.lru) > after["tlb_entries"]:
            self.lru.popitem(last=False)
        self.shrink()

    def shrink(self) -> None:
        self.run(0)
        for page_id in self.below((0, 0)):
            if self.used > self.usable:
                self.leave(page_id)
        while len(self.hot) > self.set["l1_pages"]:
            lowest = self.displaced()
            assert lowest
            self.step("evicted", lowest, "L2", None, None)
            del self.hot[lowest]

    def invalidate(self, page_id: str | None, tier: str | None) -> None:
        ids = [page_id] if page_id else [p for p in self.lru if self.tier(p) == tier]
        ids = [each for each in ids if each in self.lru]
        self.step("invalidated", None, len(ids))
        for each in ids:
            del self.lru[each]

    def tier(self, page_id: str) -> str:
        return "L0" if page_id in self.frames else "L1" if page_id in self.hot else "L2"

    def flush(self) -> None:
        self.step("flushed", None, len(self.lru))
        self.lru.clear()


def framing(page_id: str) -> int:
    """Return the tokens around a page's text in a request."""
    return 0 if page_id == "system-prompt" else 88 + len(page_id)

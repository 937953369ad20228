"""A grammar of sentences: a bank of templates, filled from itself by seeded chance."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

Bank = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A generator of sentences: `{word}` in a template is another entry of the bank."""

    bank: Bank
    chance: Random

    def say(self, entry: str, **given: object) -> str:
        """Return a sentence of this entry; `given` words replace the bank's."""
        template = self.chance.choice(self.bank[entry])
        words = {
            name: given[name] if name in given else self.say(name, **given)
            for _, name, _, _ in string.Formatter().parse(template)
            if name is not None
        }
        return template.format(**words)

    def pick(self, entry: str) -> str:
        """Return a word of the entry, to be used more than once."""
        return self.say(entry)

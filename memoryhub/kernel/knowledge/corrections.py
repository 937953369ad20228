"""Correction: claims about a subject and the blocks that follow, in one commit. Pure.

A block that was changed meanwhile refuses the claims too. See decision 100.
"""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.knowledge import blocks, facts
from memoryhub.kernel.knowledge.blocks import WriteBlock
from memoryhub.kernel.knowledge.facts import AssertFacts
from memoryhub.kernel.parts import KernelPart


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectFacts(Command):
    """Assert claims, and write the blocks that said what the claims replace."""

    claims: AssertFacts
    #: Next versions of different blocks.
    blocks: tuple[WriteBlock, ...] = ()


def decide_correct_facts(
    decision: Decision, command: CorrectFacts, pages: PageTable
) -> None:
    """Write the blocks, then assert the claims, all or nothing.

    The claims come last: the commit ends with the assertion by which it is undone.
    Raises the refusals of `decide_write_block` and of `decide_assert_facts`.
    """
    for block in command.blocks:
        blocks.decide_write_block(decision, block, pages)
    facts.decide_assert_facts(decision, command.claims, pages)


PART = KernelPart(
    commands={CorrectFacts: decide_correct_facts},
    home=frozenset({CorrectFacts}),
    events={},
)

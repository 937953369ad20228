"""Knowledge of a file: blocks and claims about subjects, each written once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from memoryhub.errors import InvalidError, PageErasedError, StaleError
from memoryhub.journal import texts
from memoryhub.kernel.formats.transcripts import (
    ImportedBlock,
    ImportedClaim,
    KnowledgeItem,
)
from memoryhub.kernel.knowledge.facts import (
    MAX_ENTITY,
    MAX_PREDICATE,
    MAX_VALUE,
    is_valid_text,
)
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import blocks as block_queries
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import select_rows
from memoryhub.services.knowledge import blocks, facts, homes
from memoryhub.services.knowledge.blocks import BlockDraft
from memoryhub.services.people import subjects

_Key = tuple[str | None, ...]
#: Members of a claim's payload that tell it from other claims.
_KEY: Final = ("entity", "predicate", "value", "valid_from", "valid_until")
#: Newest versions of a block among which the file's text is looked for.
_VERSIONS = 200


@dataclass(slots=True, kw_only=True)
class KnowledgeIntake:
    """Writer of a file's blocks and claims; it knows what the subjects hold already."""

    project: Project
    dry_run: bool
    #: Claims of each subject, retracted ones too.
    _claims: dict[str | None, set[_Key]] = field(default_factory=dict)

    def write_item(self, item: KnowledgeItem) -> int:
        """Write a block or a claim; return how many were new: 1 or 0.

        Raises what `blocks.put_block` and `facts.build_assertion` raise, StaleError for
        a block that never had the file's text, PageErasedError for a deleted block.
        """
        subject = self._find_subject(item.user_id)
        if isinstance(item, ImportedBlock):
            return self._write_block(subject, item)
        return self._write_claim(subject, item)

    def _find_subject(self, user_id: str | None) -> Subject | None:
        """Find the subject, or create it; None for a new subject in a dry run."""
        if user_id is None:
            return subjects.get_anonymous(self.project.id)
        if self.dry_run:
            return subjects.find(self.project.id, user_id)
        return subjects.find_or_create(self.project.id, user_id)

    def _write_block(self, subject: Subject | None, block: ImportedBlock) -> int:
        home = None if subject is None else find_home(subject)
        if home is not None:
            found = block_queries.list_versions(home, block.name, limit=_VERSIONS)
            if any(version.text == block.text for version in found):
                return 0
            if found:
                raise PageErasedError if found[0].text is None else StaleError
        draft = BlockDraft(
            block=block.name,
            text=block.text,
            description=block.description,
            read_only=block.read_only,
        )
        if subject is not None and not self.dry_run:
            blocks.put_for_operator(subject, draft, version=0, actor="import")
        return 1

    def _write_claim(self, subject: Subject | None, claim: ImportedClaim) -> int:
        fact = claim.fact
        for name, most in (
            ("entity", MAX_ENTITY),
            ("predicate", MAX_PREDICATE),
            ("value", MAX_VALUE),
        ):
            if not is_valid_text(getattr(fact, name), most, lines=name == "value"):
                raise InvalidError(loc=name)
        claims = self._load_claims(subject, claim.user_id)
        key = _build_key(json.loads(fact.payload))
        if key in claims:
            return 0
        if subject is not None:
            command = facts.build_assertion(subject, [(fact, None)], now=clock.now())
            if not self.dry_run:
                homes.perform(subject, command, actor="import", epoch=subject.epoch)
        claims.add(key)
        return 1

    def _load_claims(self, subject: Subject | None, user_id: str | None) -> set[_Key]:
        """Return all claims of a subject, read once for each import."""
        if user_id not in self._claims:
            home = None if subject is None else find_home(subject)
            found = self._claims[user_id] = set()
            if home is not None:
                rows = select_rows(home).filter(cardinality=None)
                places = [(home.id, seq) for seq in rows.values_list("seq", flat=True)]
                for opened in texts.open_events_at(home, places).values():
                    found.add(_build_key(opened.content or {}))
        return self._claims[user_id]


def _build_key(content: Any) -> _Key:
    """Build the key of a claim from its payload."""
    return tuple(map(content.get, _KEY))

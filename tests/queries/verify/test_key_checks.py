"""Keys that were lost: found without anybody who reads."""

from __future__ import annotations

import pytest

from memoryhub.models.keys import SubjectKey
from memoryhub.models.subjects import Subject
from memoryhub.queries.verify.key_checks import iter_key_checks
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.keys import keys
from tests.cast.factories import append, get_thread, make_thread

pytestmark = [pytest.mark.django_db(databases=["default", "keys"])]


@pytest.mark.no_replay
def test_lost_key_is_found_once_the_subject_has_texts(agent: Agent) -> None:
    for user in ("ann", "bob", "eve"):
        make_thread(agent, f"of-{user}", user_id=user)
    append(agent, "of-ann", "a")
    append(agent, "of-bob", "b")
    ann, bob = (get_thread(agent, f"of-{user}").subject_id for user in ("ann", "bob"))
    checked = dict(iter_key_checks())
    assert checked[ann]
    assert checked[bob]
    SubjectKey.objects.using("keys").filter(subject=ann).delete()
    keys.reset()
    assert dict(iter_key_checks()) == {**checked, ann: False}
    Subject.objects.filter(id=ann).update(state=Subject.State.ERASED)
    assert ann not in dict(iter_key_checks())

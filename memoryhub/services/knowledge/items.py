"""Items of a subject: JSON by namespace and key, for all threads of the subject."""

from __future__ import annotations

from memoryhub.errors import StaleError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.keys import ChangeKeys, DeleteKey, Expiry, SetKey
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.text.item_names import build_item_name
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import homes
from memoryhub.services.memory import keys

#: Expiry by the project's default.
_DEFAULT = Expiry()


async def put_item(
    *,
    agent: Agent,
    subject: Subject,
    namespace: str,
    key: str,
    value: object,
    expiry: Expiry = _DEFAULT,
    expected: Expected = keys.ANY,
) -> OrderReceipt:
    """Set an item; the first creates the home thread. Emits key.set.

    Raises InvalidError for a name that is too long, KeysFullError, StaleError,
    KeyExistsError, ValueTooLargeError.
    """
    name = build_item_name(namespace, key)
    change = keys.build_setting(name, value, expiry, expected)
    return await _change_item(agent, subject, change)


async def delete_item(
    *,
    agent: Agent,
    subject: Subject,
    namespace: str,
    key: str,
    expected: Expected = keys.ANY,
) -> OrderReceipt | None:
    """Delete an item. Emits key.deleted; nothing for an absent item.

    Returns None without a home thread, which a deletion does not create. Raises
    StaleError, KeyExistsError.
    """
    if await read(find_home, subject) is None:
        if expected.version is not None:
            raise StaleError
        return None
    change = DeleteKey(key=build_item_name(namespace, key), expected=expected)
    return await _change_item(agent, subject, change)


async def _change_item(
    agent: Agent, subject: Subject, change: SetKey | DeleteKey
) -> OrderReceipt:
    command = ChangeKeys(
        changes=(change,), default_ttl=agent.default_ttl, numbered=False
    )
    texts = [change.value] if isinstance(change, SetKey) else []
    return await homes.submit(
        agent=agent, subject=subject, command=command, texts=texts
    )

"""Places outside the tables that can hold something.

A new process-lifetime cache, backend, log handler or folder joins with one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from memoryhub.models.privacy import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place outside the tables: what it holds, and how a subject's part is found."""

    holds: str
    found: str = "nothing to find"
    forget: Fate = Fate.NOT_ITS


#: Whatever outlives a request in a process: `module.name` to what it holds.
PROCESS: Mapping[str, Place] = MappingProxyType(
    {
        "inspector.live.hub.hub": Place(
            holds="what watched pages show, while somebody watches",
            found="thread id; head and epoch are read before each frame",
            forget=Fate.VOID,
        ),
        "inspector.web.looks._told": Place(
            holds="ids of threads, and the minute in which an operator saw each",
            found="thread id",
            forget=Fate.PASSES,
        ),
        "inspector.web.tries.Tries": Place(
            holds="addresses that tried to sign in", forget=Fate.PASSES
        ),
        "inspector.access.passkeys.challenges": Place(
            holds="addresses that asked for a challenge", forget=Fate.PASSES
        ),
        "inspector.access.sso.begun": Place(
            holds="addresses that went to single sign-on", forget=Fate.PASSES
        ),
        "inspector.access.sign_in.tries": Place(
            holds="addresses that tried to sign in", forget=Fate.PASSES
        ),
        "inspector.memory.keys._COMPLEX": Place(holds="the words of a refusal"),
        "memoryhub.api.http.auth._known": Place(
            holds="digests of API keys, ids of what they may see",
            found="subject id of a bound key; asked again within a second",
            forget=Fate.PASSES,
        ),
        "memoryhub.api.http.limits.account": Place(
            holds="counts by API key prefix and by address", forget=Fate.PASSES
        ),
        "memoryhub.api.threads.socket.sockets": Place(holds="how agents' sockets end"),
        "memoryhub.api.http.streams.lookout": Place(
            holds="thread ids and heads of open event streams", forget=Fate.PASSES
        ),
        "memoryhub.journal.log.announce.doorbell": Place(
            holds="thread ids and seqs that wait to be announced",
            found="thread ids of the subject",
            forget=Fate.PASSES,
        ),
        "memoryhub.journal.log.heads._APPENDED": Place(
            holds="a statement, without values"
        ),
        "memoryhub.journal.log.heads.Heads": Place(
            holds="states of threads: refs, names, counters; no content",
            found="thread ids of the subject; head and epoch are read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.journal.log.log.Origins": Place(
            holds="states of threads that were forked; lives as long as one command",
            forget=Fate.PASSES,
        ),
        "memoryhub.journal.log.snapshots.states_kept": Place(
            holds="states of threads: refs, names, counters; no content; 8 MiB sealed",
            found="(subject, epoch); the epoch is read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.journal.rows.current_rows._statement": Place(
            holds="a statement of each projection, without values"
        ),
        "memoryhub.journal.rows.statements.BLANKED": Place(
            holds="a statement, without values"
        ),
        "memoryhub.journal.rows.statements.PAGE_CHANGES": Place(
            holds="a statement, without values"
        ),
        "memoryhub.journal.writing.texts.Texts": Place(holds="what `texts` holds"),
        "memoryhub.journal.writing.texts.texts": Place(
            holds="opened texts of pages, of 64 MiB sealed",
            found="(subject, epoch), read before use, as is which texts were erased;"
            " a deleted page's are dropped at once where it was deleted",
            forget=Fate.VOID,
        ),
        "memoryhub.journal.rows.totals._ADD": Place(
            holds="a statement, without values"
        ),
        "memoryhub.journal.writing.uses._ADD": Place(
            holds="a statement, without values"
        ),
        "memoryhub.journal.writing.uses.uses": Place(
            holds="counts by API key prefix and subject id, for seconds",
            found="subject id; none is written once the subject is being erased",
            forget=Fate.PASSES,
        ),
        "memoryhub.journal.writing.writer.writer": Place(
            holds="orders that wait to be committed, and the heads",
            found="thread ids of the subject; epoch is read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.kernel.formats.bundles._places": Place(
            holds="field names of event bodies"
        ),
        "memoryhub.kernel.text.names.blank": Place(
            holds="names and the salts of their threads",
            found="the salts of the subject's threads",
            forget=Fate.VOID,
        ),
        "memoryhub.kernel.text.names._fields": Place(
            holds="field names of event bodies"
        ),
        "memoryhub.kernel.text.references.References": Place(
            holds="tool names and digests of call ids; lives as long as one import",
            forget=Fate.PASSES,
        ),
        "memoryhub.kernel.state.tlb._NONE": Place(
            holds="nothing: what an empty TLB holds"
        ),
        "memoryhub.kernel.formats.transcripts.Calls": Place(
            holds="tool names and digests of call ids; lives as long as one import",
            forget=Fate.PASSES,
        ),
        "memoryhub.models.server.clock.clock": Place(
            holds="the time, and how far it is off"
        ),
        "memoryhub.queries.threads.readers.readers": Place(
            holds="reads that wait for a connection", forget=Fate.PASSES
        ),
        "memoryhub.queries.replay.replay.Followed": Place(
            holds="what `followed` holds"
        ),
        "memoryhub.queries.replay.replay.followed": Place(
            holds="newest states of 1,000 threads: refs, names, counters; no content",
            found="thread ids of the subject; head and epoch are read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.queries.replay.tokenizers._held": Place(
            holds="vocabularies that are the same for all, of extras that are in use"
        ),
        "memoryhub.services.forget.maintenance.maintenance": Place(
            holds="how many erasures are to be replayed"
        ),
        "memoryhub.services.scan.erasure_needles.Remembered": Place(
            holds="what `remembered` holds"
        ),
        "memoryhub.services.scan.erasure_needles.remembered": Place(
            holds="short pieces of what is being erased, to look for what is left",
            found="erasure id; dropped once the erasure is complete",
            forget=Fate.PASSES,
        ),
        "memoryhub.vault.keys.keyring._held": Place(holds="the key ring"),
        "memoryhub.vault.keys.keys._projects": Place(holds="opened keys of projects"),
        "memoryhub.vault.keys.keys._subjects": Place(
            holds="opened keys of subjects",
            found="(subject, epoch); the epoch is read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.vault.keys.seal_count._notes": Place(
            holds="subject ids and counts",
            found="subject id; a note about a destroyed key is dropped",
            forget=Fate.PASSES,
        ),
        "memoryhub.vault.registry.lru.Lru": Place(holds="what each of them here holds"),
    }
)

#: Backends of CACHES and CHANNEL_LAYERS.
BACKENDS: Mapping[str, Place] = MappingProxyType(
    {
        "django.core.cache.backends.dummy.DummyCache": Place(holds="nothing"),
        "channels.layers.InMemoryChannelLayer": Place(
            holds="{thread id, seq}", forget=Fate.PASSES
        ),
        "channels_redis.core.RedisChannelLayer": Place(
            holds="{thread id, seq}", forget=Fate.PASSES
        ),
    }
)

#: Where log lines go, by the class that takes them.
LOG_HANDLERS: Mapping[str, Place] = MappingProxyType(
    {
        "logging._StderrHandler": Place(
            holds="warnings of libraries; in no file of ours", forget=Fate.ROTATES
        ),
        "structlog._output.PrintLoggerFactory": Place(
            holds="lines of a closed set of fields: ids, words, counts",
            found="thread id",
            forget=Fate.ROTATES,
        ),
    }
)

#: Settings that name a file or folder.
PATHS: Mapping[str, Place] = MappingProxyType(
    {
        "BASE_DIR": Place(holds="the sources; only read"),
        "BALLAST": Place(holds="zeros: room that is ours to give up on a full disk"),
        "DATA_DIR": Place(
            holds="both databases with their journals, and what is below",
            found="through the tables; freed pages are overwritten",
            forget=Fate.DELETED,
        ),
        "KEK_FILE": Place(holds="the key ring, which opens keys and no content"),
        "LEDGER": Place(
            holds="lines of ids, counts and keyed digests; public keys",
            found="subject id",
            forget=Fate.STAYS,
        ),
        "LEDGER_MIRROR": Place(
            holds="the lines of the ledger and of the anchors once more",
            found="subject id",
            forget=Fate.STAYS,
        ),
        "LOGS": Place(
            holds="the server's output, if whoever runs it keeps it there",
            found="thread id",
            forget=Fate.ROTATES,
        ),
        "STATIC_ROOT": Place(holds="styles, scripts and pictures of the inspector"),
    }
)

"""Places outside the tables that can hold something.

A new process-lifetime cache, backend, log handler or folder joins with one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from memoryhub.models.privacy import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPlace:
    """A place outside the tables: what it holds, and how a subject's part is found."""

    holds: str
    found: str = "nothing to find"
    forget: Fate = Fate.NOT_ITS


#: Process-lifetime caches and registries: `module.name` to contents.
PROCESS: Mapping[str, OtherPlace] = MappingProxyType(
    {
        "inspector.live.hub.hub": OtherPlace(
            holds="what watched pages show, while somebody watches",
            found="thread id; head and epoch are read before each frame",
            forget=Fate.VOID,
        ),
        "inspector.web.read_audit._noted": OtherPlace(
            holds="ids of threads and views, and when an operator saw each",
            found="thread id",
            forget=Fate.PASSES,
        ),
        "inspector.web.stored_searches._stored": OtherPlace(
            holds="words that operators searched for, for an hour",
            found="project id; what is older than an erasure is dropped, not read",
            forget=Fate.VOID,
        ),
        "inspector.web.rate_limit.RateLimit": OtherPlace(
            holds="addresses that tried to sign in", forget=Fate.PASSES
        ),
        "inspector.access.passkeys.challenge_limit": OtherPlace(
            holds="addresses that asked for a challenge", forget=Fate.PASSES
        ),
        "inspector.access.sso.begin_limit": OtherPlace(
            holds="addresses that went to single sign-on", forget=Fate.PASSES
        ),
        "inspector.access.sign_in.link_limit": OtherPlace(
            holds="addresses that tried to sign in", forget=Fate.PASSES
        ),
        "inspector.loader.loader": OtherPlace(
            holds="views of the inspector by route, and whether they are loaded"
        ),
        "memoryhub.api.turns.guards.CachedOut": OtherPlace(
            holds="one answer's result of an earlier call; lives as long as the answer",
            forget=Fate.PASSES,
        ),
        "memoryhub.kernel.paging.curves.LruStack": OtherPlace(
            holds="page ids of one thread; lives as long as one reading of curves",
            forget=Fate.PASSES,
        ),
        "memoryhub.queries.turns.guards.CachedResult": OtherPlace(
            holds="a result of an earlier call; lives as long as one check",
            forget=Fate.PASSES,
        ),
        "memoryhub.services.threads.threads._AS_PARENT": OtherPlace(
            holds="a configuration without values"
        ),
        "inspector.memory.keys._COMPLEX": OtherPlace(holds="the words of a refusal"),
        "memoryhub.api.http.auth._kept_keys": OtherPlace(
            holds="digests of API keys, ids of what they may see",
            found="subject id of a bound key; asked again within a second",
            forget=Fate.PASSES,
        ),
        "memoryhub.services.knowledge.blocks._changing": OtherPlace(
            holds="ids of subjects and names of blocks, while one is changed",
            forget=Fate.PASSES,
        ),
        "memoryhub.api.http.limits.account": OtherPlace(
            holds="counts by API key prefix and by address", forget=Fate.PASSES
        ),
        "memoryhub.api.http.request_counts.requests": OtherPlace(
            holds="counts and durations by route"
        ),
        "memoryhub.asgi._http": OtherPlace(
            holds="sessions of MCP clients: names and capabilities of programs"
        ),
        "memoryhub.api.threads.socket.sockets": OtherPlace(
            holds="how agents' sockets end"
        ),
        "memoryhub.api.http.streams.lookout": OtherPlace(
            holds="thread ids and heads of open event streams", forget=Fate.PASSES
        ),
        "memoryhub.journal.log.announce.doorbell": OtherPlace(
            holds="thread ids and seqs that wait to be announced",
            found="thread ids of the subject",
            forget=Fate.PASSES,
        ),
        "memoryhub.journal.log.heads._APPENDED": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.log.heads.Heads": OtherPlace(
            holds="states of threads: refs, names, counters; no content",
            found="thread ids of the subject; head and epoch are read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.journal.log.log.Origins": OtherPlace(
            holds="states of threads that were forked; lives as long as one command",
            forget=Fate.PASSES,
        ),
        "memoryhub.journal.log.snapshots.states_kept": OtherPlace(
            holds="states of threads: refs, names, counters; no content; 8 MiB sealed",
            found="(subject, epoch); the epoch is read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.journal.log.thread_terms.indexes": OtherPlace(
            holds="words of what subjects said, opened; 48 MiB, and one larger index",
            found="(subject, epoch), read before use, as is what was erased since",
            forget=Fate.VOID,
        ),
        "memoryhub.journal.log.thread_terms.hashed": OtherPlace(
            holds="hashes of words of threads, by a secret of the process; 32 MiB",
            found="thread ids of the subject; head and epoch are read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.journal.rows.current_rows._build_statement": OtherPlace(
            holds="a statement of each projection, without values"
        ),
        "memoryhub.journal.rows.statements.BLANKED": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.rows.statements.PAGE_CHANGES": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.texts.Texts": OtherPlace(holds="what `texts` holds"),
        "memoryhub.journal.texts.texts": OtherPlace(
            holds="opened texts of pages, of 32 MiB sealed",
            found="(subject, epoch), read before use, as is which texts were erased;"
            " a deleted page's are dropped at once where it was deleted",
            forget=Fate.VOID,
        ),
        "memoryhub.journal.texts.newest": OtherPlace(
            holds="newest requests of threads, opened; 16 MiB",
            found="(subject, epoch), read before use, as is what was erased since;"
            " dropped at once where something of the subject was erased",
            forget=Fate.VOID,
        ),
        "memoryhub.journal.rows.totals._ADD": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.writing.activity.activity": OtherPlace(
            holds="counts by project, and refusals by thread id or name, for seconds",
            found="thread id or name; no row is written once the thread is erased",
            forget=Fate.PASSES,
        ),
        "memoryhub.journal.writing.activity._ADD_HOURS": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.writing.activity._ADD_MODEL": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.writing.activity._ADD_REFUSALS": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.writing.activity._ADD_TO_THREADS": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.writing.uses._ADD": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.writing.uses.uses": OtherPlace(
            holds="counts by API key prefix and subject id, for seconds",
            found="subject id; none is written once the subject is being erased",
            forget=Fate.PASSES,
        ),
        "memoryhub.journal.writing.writer.writer": OtherPlace(
            holds="orders that wait to be committed, and the heads",
            found="thread ids of the subject; epoch is read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.kernel.formats.bundles._list_id_places": OtherPlace(
            holds="field names of event bodies"
        ),
        "memoryhub.kernel.text.names.blank": OtherPlace(
            holds="names and the salts of their threads",
            found="the salts of the subject's threads",
            forget=Fate.VOID,
        ),
        "memoryhub.kernel.text.names._list_name_fields": OtherPlace(
            holds="field names of event bodies"
        ),
        "memoryhub.kernel.text.references.References": OtherPlace(
            holds="tool names and digests of call ids; lives as long as one import",
            forget=Fate.PASSES,
        ),
        "memoryhub.kernel.state.tlb._NONE": OtherPlace(
            holds="nothing: what an empty TLB holds"
        ),
        "memoryhub.kernel.formats.transcripts.Calls": OtherPlace(
            holds="tool names and digests of call ids; lives as long as one import",
            forget=Fate.PASSES,
        ),
        "memoryhub.models.per_thread.is_spread": OtherPlace(
            holds="whether a cluster spreads the tables"
        ),
        "memoryhub.models.server.clock.clock": OtherPlace(
            holds="the time, and how far it is off"
        ),
        "memoryhub.queries.knowledge.timelines._answers": OtherPlace(
            holds="rows of long timelines: keyed digests, seqs, times; no content",
            found="thread ids of the subject; the head is read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.queries.overview.unhealthy._wrong_checks": OtherPlace(
            holds="by project, how much needs a look"
        ),
        "memoryhub.queries.paging.traces.Traces": OtherPlace(
            holds="what `traces` holds"
        ),
        "memoryhub.queries.paging.traces.traces": OtherPlace(
            holds="working sets of 200 threads over time: page ids, tokens; no content",
            found="thread ids of the subject; head and epoch are read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.queries.paging.working_set_maps.sampled": OtherPlace(
            holds="thread ids, seqs and tokens",
            found="thread ids of the subject; the epoch is read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.queries.paging.working_set_maps.sampled_moves": OtherPlace(
            holds="seqs and tokens of 50 threads over time",
            found="thread ids of the subject; head and epoch are read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.queries.threads.readers.readers": OtherPlace(
            holds="reads that wait for a connection", forget=Fate.PASSES
        ),
        "memoryhub.queries.replay.replay.Followed": OtherPlace(
            holds="what `followed` and `sought` hold"
        ),
        "memoryhub.queries.replay.replay.followed": OtherPlace(
            holds="newest states of threads: refs, names, counters; no content",
            found="thread ids of the subject; head and epoch are read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.queries.replay.replay.sought": OtherPlace(
            holds="earlier states of threads: refs, names, counters; no content",
            found="thread ids of the subject; chain and epoch are read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.queries.replay.tokenizers._held": OtherPlace(
            holds="vocabularies that are the same for all, of extras that are in use"
        ),
        "memoryhub.services.forget.maintenance.maintenance": OtherPlace(
            holds="how many erasures are to be replayed"
        ),
        "memoryhub.services.scan.collecting.Remembered": OtherPlace(
            holds="what `remembered` holds"
        ),
        "memoryhub.services.scan.collecting.remembered": OtherPlace(
            holds="short pieces of what is being erased, to look for what is left",
            found="erasure id; dropped once the erasure is complete",
            forget=Fate.PASSES,
        ),
        "memoryhub.vault.keys.cold_payloads.objects": OtherPlace(
            holds="objects of cold storage, sealed; 32 MiB",
            found="object id; dropped where the object is deleted",
            forget=Fate.PASSES,
        ),
        "memoryhub.vault.keys.cold_payloads.looked": OtherPlace(
            holds="ids of objects that somebody looked at", forget=Fate.PASSES
        ),
        "memoryhub.journal.rows.statements.WEBHOOK_QUEUES": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.journal.rows.statements.SWAPPED": OtherPlace(
            holds="a statement, without values"
        ),
        "memoryhub.vault.keys.keyring._held": OtherPlace(holds="the key ring"),
        "memoryhub.vault.keys.keys._projects": OtherPlace(
            holds="opened keys of projects"
        ),
        "memoryhub.vault.keys.keys._subjects": OtherPlace(
            holds="opened keys of subjects",
            found="(subject, epoch); the epoch is read before use",
            forget=Fate.VOID,
        ),
        "memoryhub.vault.keys.seal_count._counts": OtherPlace(
            holds="subject ids and counts",
            found="subject id; a note about a destroyed key is dropped",
            forget=Fate.PASSES,
        ),
        "memoryhub.vault.registry.lru.Lru": OtherPlace(
            holds="what each of them here holds"
        ),
        "memoryhub.vault.registry.lru._named": OtherPlace(
            holds="the caches that have a name"
        ),
    }
)

#: Backends of CACHES, CHANNEL_LAYERS and STORAGES.
BACKENDS: Mapping[str, OtherPlace] = MappingProxyType(
    {
        "django.core.cache.backends.dummy.DummyCache": OtherPlace(holds="nothing"),
        "channels.layers.InMemoryChannelLayer": OtherPlace(
            holds="{thread id, seq}", forget=Fate.PASSES
        ),
        "channels_redis.core.RedisChannelLayer": OtherPlace(
            holds="{thread id, seq}", forget=Fate.PASSES
        ),
        "django.core.files.storage.FileSystemStorage": OtherPlace(
            holds="sealed payloads of closed threads, one object each",
            found="through the table of objects",
            forget=Fate.DELETED,
        ),
        "storages.backends.s3.S3Storage": OtherPlace(
            holds="sealed payloads of closed threads, one object each",
            found="through the table of objects",
            forget=Fate.DELETED,
        ),
        "django.contrib.staticfiles.storage.StaticFilesStorage": OtherPlace(
            holds="styles, scripts and pictures of the inspector"
        ),
    }
)

#: Destinations of log lines, by handler class.
LOG_HANDLERS: Mapping[str, OtherPlace] = MappingProxyType(
    {
        "logging._StderrHandler": OtherPlace(
            holds="warnings of libraries; in no file of ours", forget=Fate.ROTATES
        ),
        "structlog._output.PrintLoggerFactory": OtherPlace(
            holds="lines of a closed set of fields: ids, words, counts",
            found="thread id",
            forget=Fate.ROTATES,
        ),
    }
)

#: Settings that name a file or folder.
PATHS: Mapping[str, OtherPlace] = MappingProxyType(
    {
        "BASE_DIR": OtherPlace(holds="the sources; only read"),
        "BALLAST": OtherPlace(
            holds="zeros: room that is ours to give up on a full disk"
        ),
        "DATA_DIR": OtherPlace(
            holds="both databases with their journals, and what is below",
            found="through the tables; freed pages are overwritten",
            forget=Fate.DELETED,
        ),
        "KEK_FILE": OtherPlace(holds="the key ring, which opens keys and no content"),
        "LEDGER": OtherPlace(
            holds="lines of ids, counts and keyed digests; public keys",
            found="subject id",
            forget=Fate.STAYS,
        ),
        "LEDGER_MIRROR": OtherPlace(
            holds="the lines of the ledger and of the anchors once more",
            found="subject id",
            forget=Fate.STAYS,
        ),
        "LOGS": OtherPlace(
            holds="the server's output, if whoever runs it keeps it there",
            found="thread id",
            forget=Fate.ROTATES,
        ),
        "STATIC_ROOT": OtherPlace(
            holds="styles, scripts and pictures of the inspector"
        ),
    }
)

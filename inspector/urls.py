from __future__ import annotations

from django.urls import URLPattern, URLResolver, path, register_converter

from inspector.access import (
    alerts,
    api_keys,
    members,
    passkeys,
    projects,
    second_factor,
    sign_in,
    sso,
    webhooks,
)
from inspector.connect import connect
from inspector.forget import audit, erasures, forget, privacy, receipts, tombstones
from inspector.knowledge import (
    block_acts,
    fact_acts,
    fact_adding,
    fact_correcting,
    facts,
    undo,
)
from inspector.lists import person_visits
from inspector.live import health
from inspector.memory import (
    checkpoints,
    key_acts,
    keys,
    restores,
    task_acts,
)
from inspector.nouns import NOUNS
from inspector.observing import instruction_form, observer_acts
from inspector.overview import refusals, screen
from inspector.paging import page_acts, pages, paging, procedures
from inspector.palette import palette, recall
from inspector.people import (
    episodes,
    holds,
    retention,
    subject_acts,
    subject_exports,
    subjects,
)
from inspector.replay import overview, timeline
from inspector.threads import chosen, events, forks, settings, slots, threads
from inspector.turns import marks, turn_changes, turn_page, turns
from inspector.words import words
from memoryhub.models.projects import SLUG_PATTERN


class SlugConverter:
    regex = SLUG_PATTERN

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class NameConverter(SlugConverter):
    """Converter of names chosen by clients, as `names` in the kernel allows."""

    regex = "[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}"


class BlockNameConverter(SlugConverter):
    """Converter of names of blocks, between slashes."""

    regex = f"{NameConverter.regex}(?:/{NameConverter.regex})*"


class SeqConverter:
    """Converter of our numbers: at most 18 digits, which every database can store."""

    regex = "[0-9]{1,18}"

    def to_python(self, value: str) -> int:
        return int(value)

    def to_url(self, value: int) -> str:
        return str(value)


class NumberConverter(SeqConverter):
    """Converter of seqs, including 0 and below for events that a fork inherits."""

    regex = "0|-?[1-9][0-9]{0,17}"


class FormatConverter(SlugConverter):
    regex = "json|csv|ndjson"


register_converter(SlugConverter, "project")
register_converter(NameConverter, "name")
register_converter(BlockNameConverter, "block_name")
register_converter(SeqConverter, "seq")
register_converter(NumberConverter, "number")
register_converter(FormatConverter, "format")

P = "p/<project:project>"
T = f"{P}/threads/<name:thread>"
S, E = f"{P}/subjects/<uuid:subject>", f"{P}/erasures/<uuid:erasure>"

#: Pages of a person's memory: path behind the person's address, view and route.
PERSON_PAGES = (
    ("facts", facts.show, "facts"),
    ("add-fact", fact_adding.add, "fact-add"),
    ("facts/<seq:fact>/<slug:verb>", fact_acts.act, "fact-act"),
    ("add-block", block_acts.add, "block-add"),
    ("blocks/<block_name:block>/edit", block_acts.edit, "block-edit"),
    ("recall", recall.show, "recall"),
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", projects.redirect_home, name="home"),
    path("projects", projects.index, name="projects"),
    path("projects/new", projects.create_project, name="project-new"),
    path("sign-in", sign_in.sign_in_by_password, name="sign-in"),
    path("sign-in/<str:token>", sign_in.sign_in_by_link, name="sign-in-link"),
    path("sign-out", sign_in.sign_out, name="sign-out"),
    path("theme", sign_in.set_theme, name="theme"),
    path("second-factor", second_factor.show, name="second-factor"),
    path("sso", sso.begin, name="sso"),
    path("sso/callback", sso.receive_callback, name="sso-callback"),
    path("passkeys/challenge", passkeys.issue_challenge, name="passkey-challenge"),
    path("passkeys/proposal", passkeys.issue_proposal, name="passkey-proposal"),
    path(f"{P}/", screen.show, name="overview"),
    path(f"{P}/panels/overview", screen.show_panel, name="overview-panel"),
    path(f"{P}/refusals", refusals.show, name="refusals"),
    path(f"{P}/panels/<slug:panel>", threads.show_panel, name="list-panel"),
    path(f"{P}/chosen-threads", chosen.act, name="chosen-threads"),
    path(
        f"{P}/chosen-threads.<format:kind>", chosen.export, name="chosen-threads-export"
    ),
    path(f"{P}/settings", settings.show, name="settings"),
    path(f"{P}/api-keys", api_keys.index, name="api-keys"),
    path(f"{P}/api-keys/new", api_keys.create_key, name="api-key-new"),
    path(f"{P}/api-keys/<slug:prefix>/rotate", api_keys.rotate, name="api-key-rotate"),
    path(f"{P}/api-keys/<slug:prefix>/revoke", api_keys.revoke, name="api-key-revoke"),
    path(f"{P}/connect", connect.show, name="connect"),
    path(f"{P}/connect/key", connect.make_key, name="connect-key"),
    path(f"{P}/connect/<slug:panel>", connect.show_panel, name="connect-panel"),
    path(f"{P}/search", palette.show, name="search"),
    path(f"{P}/search/<slug:panel>", palette.show_panel, name="search-panel"),
    path(f"{P}/words", words.show, name="words"),
    path(f"{P}/alerts", alerts.show, name="alerts"),
    path(f"{P}/webhooks", webhooks.index, name="webhooks"),
    path(f"{P}/webhooks/new", webhooks.create_webhook, name="webhook-new"),
    path(f"{P}/webhooks/<uuid:webhook>", webhooks.show, name="webhook"),
    path(f"{P}/members", members.index, name="members"),
    path(f"{P}/members/new", members.add_member, name="member-new"),
    path(f"{P}/members/<uuid:operator>", members.change, name="member"),
    path(f"{P}/audit/<seq:seq>", audit.show, name="audit-entry"),
    path(f"{P}/health", health.index, name="health"),
    path(f"{P}/health/privacy", privacy.show, name="health-privacy"),
    path(f"{P}/subjects/look-up", subjects.look_up, name="subject-look-up"),
    path(f"{P}/subjects/readmit", subjects.readmit, name="subject-readmit"),
    path(S, subjects.show, name="subject"),
    path(f"{S}/panels/<slug:panel>", subjects.show_panel, name="subject-panel"),
    path(f"{S}/episodes", episodes.index, name="episodes"),
    path(
        f"{S}/episodes/consolidate", episodes.consolidate, name="episodes-consolidate"
    ),
    path(f"{S}/episodes/retry", episodes.retry, name="episode-retry"),
    path(f"{S}/facts/<seq:fact>/correct", fact_correcting.correct, name="fact-correct"),
    *(path(f"{S}/{at}", view, name=route) for at, view, route in PERSON_PAGES),
    # The same pages had addresses under each thread of the person.
    *(
        path(
            f"{T}/{at}",
            person_visits.redirect_old_address,
            {"route": route},
            name=f"thread-{route}",
        )
        for at, route in (
            ("blocks", "blocks"),
            *((at, route) for at, _, route in PERSON_PAGES),
        )
    ),
    path(f"{S}/reveal", subjects.reveal, name="subject-reveal"),
    path(f"{S}/export", subject_exports.export, name="subject-export"),
    path(f"{S}/restrict", subject_acts.restrict, name="subject-restrict"),
    path(f"{S}/unrestrict", subject_acts.unrestrict, name="subject-unrestrict"),
    path(f"{S}/hold", subject_acts.hold, name="subject-hold"),
    path(f"{S}/forget", forget.begin, name="forget"),
    path(E, erasures.show, name="erasure"),
    path(f"{E}/panels/<slug:panel>", erasures.show_panel, name="erasure-panel"),
    path(f"{E}/confirm", forget.confirm, name="erasure-confirm"),
    path(f"{E}/cancel", forget.cancel, name="erasure-cancel"),
    path(f"{E}/keep-out", forget.keep_out, name="erasure-keep-out"),
    path(f"{E}/needles", forget.recall, name="erasure-needles"),
    path(f"{P}/receipts/verify", receipts.verify, name="receipt-verify"),
    path(f"{P}/receipts/<uuid:receipt>", receipts.show, name="receipt"),
    path(
        f"{P}/receipts/<uuid:receipt>/download",
        receipts.download,
        name="receipt-download",
    ),
    path(f"{P}/holds/<uuid:hold>/lift", holds.lift, name="hold-lift"),
    path(f"{P}/holds/<uuid:hold>/renew", holds.renew, name="hold-renew"),
    path(f"{P}/tombstones", tombstones.index, name="tombstones"),
    path(
        f"{P}/tombstones/<uuid:tombstone>/lift", tombstones.lift, name="tombstone-lift"
    ),
    path(T, timeline.show, name="thread"),
    path(f"{T}/memory", overview.show, name="memory"),
    path(f"{T}/panels/<slug:panel>", timeline.show_panel, name="panel"),
    path(f"{T}/pages/<name:page>", pages.show, name="page"),
    path(f"{T}/pages/<name:page>/delete", pages.delete, name="page-delete"),
    path(f"{T}/pages/<name:page>/<slug:verb>", page_acts.act, name="page-act"),
    path(f"{T}/paging", paging.show, name="paging"),
    path(f"{T}/paging/curves", paging.show_curves, name="paging-curves"),
    path(f"{T}/paging/prefetch", paging.show_prefetch, name="paging-prefetch"),
    path(f"{T}/procedures", procedures.show, name="procedures"),
    path(f"{T}/paging/settings", paging.edit_settings, name="paging-settings"),
    path(f"{T}/paging/flush", paging.flush, name="paging-flush"),
    path(
        f"{T}/paging/prefetch/clear",
        paging.clear_prefetch,
        name="paging-prefetch-clear",
    ),
    path(f"{T}/paging.<format:kind>", paging.export, name="paging-export"),
    path(f"{T}/add-key", key_acts.add, name="key-add"),
    path(f"{T}/clear-keys", key_acts.clear, name="keys-clear"),
    path(f"{T}/keys/<name:key>", keys.show, name="key"),
    path(f"{T}/keys/<name:key>/<slug:verb>", key_acts.act, name="key-act"),
    path(f"{T}/task/edit", task_acts.edit, name="task-edit"),
    path(f"{T}/events/<seq:seq>/undo", undo.undo, name="event-undo"),
    path(f"{T}/checkpoints/take", checkpoints.take, name="checkpoint-take"),
    path(
        f"{T}/checkpoints/<number:number>/restore",
        restores.restore,
        name="checkpoint-restore",
    ),
    path(
        f"{T}/checkpoints/<number:number>/delete",
        restores.delete,
        name="checkpoint-delete",
    ),
    path(f"{T}/compare", checkpoints.compare, name="compare"),
    path(f"{T}/turn", turns.go_to_turn, name="turn-go"),
    path(f"{T}/turns/<seq:n>", turn_page.show, name="turn"),
    path(f"{T}/turns/<seq:n>/mark", marks.mark_turn, name="turn-mark"),
    path(f"{T}/turns/<seq:n>/request", turn_page.show_request, name="turn-request"),
    path(f"{T}/turns/<seq:n>/missing", turn_page.show_missing, name="turn-missing"),
    path(f"{T}/turns/<seq:n>/diff", turn_changes.diff, name="turn-diff"),
    path(f"{T}/turns/<seq:n>/prefix", turn_changes.show_prefix, name="turn-prefix"),
    path(
        f"{T}/turns/<seq:n>/panels/<slug:panel>",
        turn_page.show_panel,
        name="turn-panel",
    ),
    path(f"{T}/prefix", turn_changes.show_prefixes, name="prefixes"),
    path(f"{T}/tail", timeline.redirect_old_address, {"view": "events"}, name="tail"),
    path(
        f"{T}/working-set",
        timeline.redirect_old_address,
        {"tab": "working-set"},
        name="working-set",
    ),
    path(
        f"{T}/observer/instructions",
        instruction_form.edit,
        name="observer-instructions",
    ),
    path(f"{T}/observer/<slug:verb>", observer_acts.act, name="observer-act"),
    path(f"{T}/close", threads.close, name="close"),
    path(f"{T}/reopen", threads.reopen, name="reopen"),
    path(f"{T}/retention", retention.edit, name="retention"),
    path(f"{T}/fork", forks.fork_thread, name="fork"),
    path(f"{T}/forks", forks.index, name="forks"),
    path(f"{T}/events/<seq:seq>", events.show, name="event"),
    path(f"{T}/slots/<seq:index>", slots.show, name="slot"),
    path(
        f"{T}/slots/<seq:index>/pictures/<seq:part>",
        slots.send_picture,
        name="slot-picture",
    ),
    path(f"{T}/messages.ndjson", slots.export_messages, name="messages-export"),
    *(pattern for noun in NOUNS for pattern in noun.build_url_patterns()),
]

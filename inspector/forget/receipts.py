"""Receipts: what complete erasures leave, signed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import orjson
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access.access import signed_in
from inspector.forget import privacy_pages
from inspector.lists.screens import Export, ListRequest, Screen
from inspector.web import forgetting
from inspector.web.records import Record
from inspector.web.visitors import Visitor
from memoryhub.queries.forget import receipt_views
from memoryhub.queries.forget.erasure_views import Remains
from memoryhub.queries.forget.receipt_views import ReceiptLine
from memoryhub.queries.lists.cursors import Batch
from memoryhub.vault.proof import receipts, signing


def _batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> Batch[ReceiptLine]:
    return receipt_views.list_receipts(ask.where.project, after=after, limit=limit)


def _record(_: str, line: ReceiptLine) -> Record:
    return {
        "receipt": str(line.id),
        "erasure": str(line.erasure),
        "status": line.status,
        "scope": line.scope,
        "reason": line.reason,
        "ticket": line.ticket,
        "erased": line.erased,
        "addenda": line.addenda,
        "issued_at": line.issued_at.isoformat(),
    }


SCREEN = Screen(
    folder="forget/receipts",
    scope=privacy_pages.CONSOLE,
    export=Export(
        fields=(
            "receipt", "erasure", "status", "scope", "reason", "ticket", "erased",
            "addenda", "issued_at",
        ),
        record=_record,
        batch=_batch,
        size=None,
    ),
)  # fmt: skip


#: Why a text proves nothing.
WRONG = {
    "malformed": "it can't be read as a receipt: that is one JSON object in which no "
    "key stands twice and every number is an integer.",
    "not_a_receipt": "it is no receipt and no addendum of ours.",
    "unknown_key": "no key of this instance signed it.",
    "unknown_root": "it names another root than that of this instance.",
    "bad_signature": "something in it was changed since it was signed.",
}


@require_safe
@signed_in
def show(request: HttpRequest, project: str, receipt: UUID) -> HttpResponse:
    """Show a receipt in words, checked against the public keys as it is shown."""
    visitor = privacy_pages.enter(request, project)
    row = receipt_views.get_receipt(visitor.project, receipt)
    if row.n:
        # An addendum stands on the page of what it adds to.
        first = {"project": project, "receipt": orjson.loads(row.text)["to"]}
        return HttpResponseRedirect(reverse("receipt", kwargs=first))
    verdict = receipts.verify(row.text.encode(), signing.public_keys())
    says = orjson.loads(row.text)
    context = {
        "row": row,
        "verdict": verdict,
        "good": verdict.valid,
        "problem": WRONG.get(verdict.reason, verdict.reason),
        "says": says,
        "sums": receipt_views.list_sums(says),
        "times": _times(says["times"]),
        "addenda": receipt_views.list_addenda(row.erasure_id),
        "stays": Remains.of(says),
        "words": forgetting,
    }
    return privacy_pages.page(
        request, visitor, "forget/receipts/show", context, tab="receipts"
    )


@require_safe
@signed_in
def download(request: HttpRequest, project: str, receipt: UUID) -> HttpResponse:
    """Send the signed text, to the byte."""
    visitor = privacy_pages.enter(request, project)
    row = receipt_views.get_receipt(visitor.project, receipt)
    named = f'attachment; filename="receipt-{row.id}.json"'
    return HttpResponse(
        row.text,
        content_type="application/json",
        headers={"Content-Disposition": named},
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def verify(request: HttpRequest, project: str) -> HttpResponse:
    """Tell whether a text is a receipt of ours. It is compared, and not kept."""
    visitor = privacy_pages.enter(request, project)
    text = request.POST.get("text", "").strip()
    verdict = None
    if request.method == "POST":
        verdict = receipts.verify(text.encode(), signing.public_keys())
    context = {
        "text": text,
        "verdict": verdict,
        "problem": WRONG.get(verdict.reason, "") if verdict else "",
        "most": receipts.MAX_BYTES,
    }
    status = 422 if verdict and not verdict.valid else 200
    return privacy_pages.page(
        request,
        visitor,
        "forget/receipts/verify",
        context,
        tab="receipts",
        status=status,
    )


def _times(states: Mapping[str, str]) -> list[tuple[str, datetime]]:
    """List when each state was entered, in their order."""
    times = [(state, datetime.fromisoformat(at)) for state, at in states.items()]
    return sorted(times, key=lambda each: each[1])

"""Screens of receipts, the signed records of complete erasures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import orjson
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access.access import require_signed_in
from inspector.forget import privacy_pages
from inspector.lists.screens import ListRequest, Screen, ScreenExport
from inspector.web import forgetting
from inspector.web.records import Record
from inspector.web.visitors import Visitor
from memoryhub.queries.forget import receipt_views
from memoryhub.queries.forget.erasure_views import ErasureRemains
from memoryhub.queries.forget.receipt_views import ReceiptLine
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.vault.proof import receipts, signing


def _list_batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> ListBatch[ReceiptLine]:
    return receipt_views.list_receipts(ask.where.project, after=after, limit=limit)


def _build_record(_: str, line: ReceiptLine) -> Record:
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
    export=ScreenExport(
        fields=(
            "receipt", "erasure", "status", "scope", "reason", "ticket", "erased",
            "addenda", "issued_at",
        ),
        record=_build_record,
        batch=_list_batch,
        size=None,
    ),
)  # fmt: skip


#: Texts for why a text proves nothing.
VERIFY_PROBLEMS = {
    "malformed": "the text can't be read as a receipt: one JSON object with unique "
    "keys and integers as its only numbers.",
    "not_a_receipt": "the text is neither a receipt nor an addendum of MemoryHub.",
    "unknown_key": "no key of this instance signed the text.",
    "unknown_root": "the text names another root key than that of this instance.",
    "bad_signature": "the text was changed after it was signed.",
}


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, receipt: UUID) -> HttpResponse:
    """Show a receipt in words, verified against the public keys on each view."""
    visitor = privacy_pages.require_officer(request, project)
    row = receipt_views.get_receipt(visitor.project, receipt)
    if row.n:
        # An addendum is shown on the page of its receipt.
        first = {"project": project, "receipt": orjson.loads(row.text)["to"]}
        return HttpResponseRedirect(reverse("receipt", kwargs=first))
    verdict = receipts.verify(row.text.encode(), signing.list_public_keys())
    says = orjson.loads(row.text)
    sums = receipt_views.list_sums(says)
    context = {
        "row": row,
        "verdict": verdict,
        "good": verdict.valid,
        "problem": VERIFY_PROBLEMS.get(verdict.reason, verdict.reason),
        "says": says,
        "sums": sums,
        "moved": [each for each in sums if each.has_moved],
        "times": _list_times(says["times"]),
        "addenda": receipt_views.list_addenda(row.erasure_id),
        "stays": ErasureRemains.from_receipt(says),
        "words": forgetting,
    }
    return privacy_pages.render_page(
        request, visitor, "forget/receipts/show", context, tab="receipts"
    )


@require_safe
@require_signed_in
def download(request: HttpRequest, project: str, receipt: UUID) -> HttpResponse:
    """Send the signed text, byte for byte."""
    visitor = privacy_pages.require_officer(request, project)
    row = receipt_views.get_receipt(visitor.project, receipt)
    named = f'attachment; filename="receipt-{row.id}.json"'
    return HttpResponse(
        row.text,
        content_type="application/json",
        headers={"Content-Disposition": named},
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def verify(request: HttpRequest, project: str) -> HttpResponse:
    """Verify that a text is a receipt of this server. The server stores no text."""
    visitor = privacy_pages.require_officer(request, project)
    text = request.POST.get("text", "").strip()
    verdict = None
    if request.method == "POST":
        verdict = receipts.verify(text.encode(), signing.list_public_keys())
    context = {
        "text": text,
        "verdict": verdict,
        "problem": VERIFY_PROBLEMS.get(verdict.reason, "") if verdict else "",
        "most": receipts.MAX_BYTES,
    }
    status = 422 if verdict and not verdict.valid else 200
    return privacy_pages.render_page(
        request,
        visitor,
        "forget/receipts/verify",
        context,
        tab="receipts",
        status=status,
    )


def _list_times(states: Mapping[str, str]) -> list[tuple[str, datetime]]:
    """List when the erasure entered each state, oldest first."""
    times = [(state, datetime.fromisoformat(at)) for state, at in states.items()]
    return sorted(times, key=lambda each: each[1])

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, URLResolver, path
from django.urls.resolvers import RoutePattern
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.loader import loader
from memoryhub.api import api, metrics
from memoryhub.api.errors import ProblemDocument
from memoryhub.api.http import auth
from memoryhub.errors import Refusal
from memoryhub.queries.threads.readers import read
from memoryhub.queries.verify import health


@require_safe
def report_live(request: HttpRequest) -> JsonResponse:
    """Report that the process runs."""
    return JsonResponse({"status": "ok"})


@require_safe
def report_ready(request: HttpRequest) -> JsonResponse:
    """Report whether the process can serve and what is degraded; 503 only if not."""
    readiness = health.get_readiness()
    status = 200 if readiness.serving else 503
    return JsonResponse(readiness.to_json(), status=status)


@require_safe
async def report_metrics(request: HttpRequest) -> HttpResponse:
    """Report this process's counts, to this machine or to a key of scope `admin`."""
    if not access.is_local_request(request):
        address = request.META.get("REMOTE_ADDR", "")
        try:
            agent = await auth.greet(auth.find_sent_key(request), address=address)
            auth.require(agent, auth.ADMIN)
        except Refusal as refusal:
            problem = ProblemDocument.from_refusal(refusal)
            answer = _build_plain(problem.detail, status=problem.status)
            for name, value in problem.headers.items():
                answer[name] = value
            return answer
    text = await read(metrics.render_metrics, page_sockets=loader.count_sockets())
    return HttpResponse(text, content_type=metrics.MEDIA_TYPE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a bad request, such as a foreign Host, without session or page."""
    return _build_plain("This server does not take such a request.", status=400)


def answer_failure(request: HttpRequest) -> HttpResponse:
    """Answer with plain text, since the failure may be in what a page needs."""
    return _build_plain("The server failed. Its log says where.", status=500)


def _build_plain(text: str, *, status: int) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")


handler400 = "memoryhub.urls.bad_request"
handler404 = "inspector.web.refusals.not_found"
handler500 = "memoryhub.urls.answer_failure"

urlpatterns: list[URLPattern | URLResolver] = [
    path("health/live", report_live),
    path("health/ready", report_ready),
    path("metrics", report_metrics),
    path("api/v1/", api.urls),
    # `include` would import the inspector at once; a resolver imports it for a page.
    URLResolver(RoutePattern(""), "inspector.urls"),
]

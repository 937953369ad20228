from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, URLResolver, include, path
from django.views.decorators.http import require_safe

from memoryhub.api import api
from memoryhub.queries.verify import health


@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """The process runs."""
    return JsonResponse({"status": "ok"})


@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Whether the process can serve; names what is degraded. 503 only if it can't."""
    readiness = health.get_readiness()
    status = 200 if readiness.serving else 503
    return JsonResponse(readiness.as_json(), status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A foreign Host among others, so before there is a session or a page of ours."""
    return _plain("This server does not take such a request.", status=400)


def failed(request: HttpRequest) -> HttpResponse:
    """Plain, since whatever failed may be what a page needs."""
    return _plain("The server failed. Its log says where.", status=500)


def _plain(text: str, *, status: int) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")


handler400 = "memoryhub.urls.bad_request"
handler404 = "inspector.web.refusals.not_found"
handler500 = "memoryhub.urls.failed"

urlpatterns: list[URLPattern | URLResolver] = [
    path("health/live", live),
    path("health/ready", ready),
    path("api/v1/", api.urls),
    path("", include("inspector.urls")),
]

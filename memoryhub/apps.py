from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register

from memoryhub.vault import checks


class MemoryHubConfig(AppConfig):
    name = "memoryhub"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(checks.ring_beside_database, deploy=True)

from __future__ import annotations

from django.apps import AppConfig


class MemoryHubConfig(AppConfig):
    name = "memoryhub"
    default_auto_field = "django.db.models.BigAutoField"

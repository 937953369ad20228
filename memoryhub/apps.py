from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.core.checks import Tags, register

from memoryhub.vault.keys import checks


class MemoryHubConfig(AppConfig):
    name = "memoryhub"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Modules that need the models can be imported only now.
        privacy = import_module("memoryhub.models.privacy")
        server_checks = import_module("memoryhub.queries.verify.server_checks")
        sealing = import_module("memoryhub.journal.writing.sealing")
        start = import_module("memoryhub.management.start")
        register(start.old_formats, Tags.database)
        register(privacy.check_declarations)
        register(sealing.every_page_can_go)
        register(checks.check_ring_folder, deploy=True)
        register(checks.check_password_only, deploy=True)
        register(server_checks.redis_saves, deploy=True)
        register(server_checks.secret, deploy=True)
        register(server_checks.proxies, deploy=True)
        for check in (
            server_checks.database_logs,
            server_checks.database_limits,
            server_checks.database_roles,
            server_checks.database_rights,
        ):
            register(check, Tags.database, deploy=True)

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.errors import InvalidError
from memoryhub.management import start
from memoryhub.management.terminal import Command as Base
from memoryhub.models.access.operators import Operator
from memoryhub.services.access import operators


class Command(Base):
    help = (
        "Let an operator in no more: sessions and links end at once, open pages within "
        f"seconds. To take one role away: {PROGRAM} add_operator NAME --role none."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what the operator signs in as")
        parser.add_argument(
            "--enable",
            action="store_true",
            help="let them in again, with the roles they had",
        )

    def handle(self, *args: Any, name: str, enable: bool, **options: Any) -> None:
        start.prepare_existing()
        operator = Operator.objects.filter(username=name).first()
        if operator is None:
            self.end("There is no operator of this name.")
        if enable:
            operators.enable(operator)
            self.say(f"{name} may sign in again: {PROGRAM} signin --operator {name}")
            return
        try:
            operators.disable(operator)
        except InvalidError as refusal:
            self.end(_REASONS[refusal.invalid_code])
        self.say(
            f"{name} is disabled. Undo: {PROGRAM} disable_operator {name} --enable"
        )


_REASONS = {
    "last_owner": "A project would have no owner; make somebody else owner first.",
    "value": f"{operators.DEFAULT_USERNAME} is the way back in and can't be disabled; "
    "take its roles away: "
    f"{PROGRAM} add_operator {operators.DEFAULT_USERNAME} --role none --project ...",
}

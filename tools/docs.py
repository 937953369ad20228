"""Writer of what in docs/ follows from the code, tests and figures: `make docs`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import django
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from benchmarks import report
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.state.bodies import EventBody
from tests.promises import table

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN, END = "<!-- generated:begin -->\n", "<!-- generated:end -->"
APP = "memoryhub"


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    django.setup()
    for name, generate in GENERATED.items():
        put(DOCS / name, generate())
    return 0


def put(path: Path, text: str) -> None:
    """Replace what stands between a document's two marks. Raises ValueError."""
    before, _, after = _parts(path)
    path.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")


def between(path: Path) -> str:
    """Return what stands between a document's two marks. Raises ValueError."""
    return _parts(path)[1]


def _parts(path: Path) -> tuple[str, str, str]:
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    text, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path.name} has no {BEGIN.strip()} … {END}")
    return before, text, after


# Events


def events() -> str:
    """List every event type: what happened, what is sealed, what the body holds."""
    head = "| event | what happened | sealed beside it | body |\n|---|---|---|---|\n"
    return head + "".join(_event(name, kind) for name, kind in TYPES.items())


def _event(name: str, kind: type[EventBody]) -> str:
    about = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    happened, _, payload = about.partition(" Payload: ")
    fields = [field.alias or own for own, field in kind.model_fields.items()]
    body = ", ".join(f"`{field}`" for field in fields)
    return f"| `{name}` | {happened} | {payload.rstrip('.')} | {body} |\n"


# Commands


def commands() -> str:
    """Describe every command of `manage.py` as its `--help` does."""
    names = sorted(name for name, app in get_commands().items() if app == APP)
    return "\n".join("".join(_command(name)) for name in names)


def _command(name: str) -> Iterator[str]:
    parser = load_command_class(APP, name).create_parser("manage.py", name)
    yield from _described(parser, f"## {name}", parser.description)
    for each in _actions(parser):
        if isinstance(each, argparse._SubParsersAction):  # noqa: SLF001  # no public name
            shorts = {short.dest: short.help for short in each._choices_actions}  # noqa: SLF001  # as above
            for action, own in each.choices.items():
                about = own.description or f"{shorts[action]}."
                yield "\n"
                yield from _described(own, f"### {name} {action}", about)


def _described(
    parser: argparse.ArgumentParser, heading: str, about: str | None
) -> Iterator[str]:
    text = (about or "").strip()
    # What has lines of its own may show commands.
    written = f"```text\n{text}\n```" if "\n" in text else text[:1].upper() + text[1:]
    yield f"{heading}\n\n{written}\n"
    own = [each for each in _actions(parser) if each.dest not in _COMMON and each.help]
    if own:
        yield "\n| argument | meaning |\n|---|---|\n"
        yield from map(_argument, own)


def _argument(action: argparse.Action) -> str:
    value = f" {action.metavar or action.dest.upper()}"
    valued = bool(action.option_strings) and action.nargs != 0
    names = action.option_strings or [str(action.metavar or action.dest)]
    written = ", ".join(f"`{name}{value if valued else ''}`" for name in names)
    listed = f" ({', '.join(map(str, action.choices))})" if action.choices else ""
    meaning = (action.help or "") % vars(action) + listed
    return f"| {written} | {meaning.replace('<', '&lt;')} |\n"


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # noqa: SLF001  # argparse shows them to nobody else


#: What every command of Django takes.
_COMMON = {each.dest for each in _actions(BaseCommand().create_parser("manage.py", ""))}


# Figures and decisions


def measured() -> str:
    """Tabulate the newest figures of each benchmark, by the day they were taken."""
    reports = (json.loads(path.read_text("utf-8")) for path in report.files())
    return "\n".join(map(report.table, reports))


def decisions() -> str:
    """List the pages of decisions by their headings."""
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    return "".join(f"- [{_title(page)}]({page.name})\n" for page in pages)


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


GENERATED: Mapping[str, Callable[[], str]] = {
    "events.md": events,
    "commands.md": commands,
    "measured.md": measured,
    "decisions/README.md": decisions,
    "promises.md": table.table,
}

if __name__ == "__main__":
    sys.exit(main())

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memoryhub.kernel.formats import formats
from memoryhub.kernel.formats.records import BadRecord, TextPosition
from memoryhub.management.import_progress import ImportProgress
from memoryhub.management.import_summary import Summary, render_bad_line
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.imports.imports import ImportCounts
from tests.cast.recordings import array, build_message, run, write_lines

pytestmark = pytest.mark.django_db

CANARY = "mia.li3818"


class Imported:
    """Output and exit code of an import command."""

    def __init__(self, *words: Any, **options: Any) -> None:
        out, err = StringIO(), StringIO()
        self.code = 0
        try:
            call_command("import", *map(str, words), stdout=out, stderr=err, **options)
        except SystemExit as ended:
            self.code = int(ended.code or 0)
        except CommandError as refused:
            self.code = refused.returncode
            err.write(str(refused))
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def rows(self) -> dict[str, str]:
        """Return the table by the first word of each line."""
        pairs = (line.split(None, 1) for line in self.out.splitlines())
        return {pair[0]: pair[1] for pair in pairs if len(pair) > 1}

    @property
    def bad(self) -> list[str]:
        """Return the lines about bad records, without the file's name."""
        return [line.rpartition("/")[2] for line in self.err.splitlines()]


def test_import_is_summed_up(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(0, user_id="ann"), run(1))
    first, second = Imported(path, project="acme"), Imported(path, project="acme")
    assert (first.code, second.code) == (0, 0)
    assert first.rows | {"took": ""} == {
        "imported": "2",
        "present": "0",
        "erased": "0",
        "skipped": "0",
        "slots": "4",
        "turns": "2",
        "warnings": "0",
        "took": "",
    }
    assert (second.rows["present"], second.rows["slots"]) == ("2", "0")
    assert first.err == second.err == ""


def test_import_prints_one_json_object_on_request(
    acme: Project, tmp_path: Path
) -> None:
    path = array(tmp_path, run(seed=1))
    done = json.loads(Imported(path, project="acme", json=True).out)
    assert done["took_seconds"] > 0
    assert done["slots_per_second"] > 0
    del done["took_seconds"], done["slots_per_second"]
    assert done == {
        "file": str(path),
        "format": "runs",
        "complete": True,
        "dry_run": False,
        "runs": 1,
        "present": 0,
        "erased": 0,
        "slots": 2,
        "turns": 1,
        "blocks": 0,
        "claims": 0,
        "present_blocks": 0,
        "present_claims": 0,
        "skipped": 0,
        "warnings": {"extra_field": 1},
        "omitted": {},
        "paging": {},
        "bytes": path.stat().st_size,
        "exit_code": 0,
    }


def test_quiet_import_prints_only_bad_records(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(0), run(0))
    done = Imported(path, project="acme", quiet=True, skip_bad=True)
    assert (done.code, done.out, len(done.bad)) == (3, "", 1)


def test_import_dry_run_says_so(acme: Project, tmp_path: Path) -> None:
    done = Imported(array(tmp_path, run()), project="acme", dry_run=True)
    assert (done.code, done.rows["imported"]) == (0, "1")
    assert "Nothing was written" in done.out
    assert Thread.objects.count() == 0


def test_import_options_override_the_file(
    acme: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"source": "crm", "user_id": True, "agent_type": "desk"}
    monkeypatch.setattr("sys.stdin", StringIO("bob\n"))
    done = Imported(array(tmp_path, run(user_id="ann")), project="acme", **options)
    assert done.code == 0
    row = Thread.objects.get()
    assert (row.name, row.agent_type) == ("crm:0:0", "desk")
    assert Subject.objects.filter(anonymous=False).count() == 1
    path = write_lines(tmp_path, build_message())
    assert Imported(path, project="acme", thread="talk", format="chat").code == 0
    assert Thread.objects.filter(name="talk", agent_type="desk").exists()


# exit codes


def test_import_exit_code_tells_the_kind_of_bad_record(
    acme: Project, tmp_path: Path
) -> None:
    path = array(tmp_path, run(0), run(0), run(1))
    stopped = Imported(path, project="acme")
    assert (stopped.code, stopped.rows["imported"]) == (1, "1")
    assert "Stopped" in stopped.out
    skipped = Imported(path, project="acme", skip_bad=True)
    assert (skipped.code, skipped.rows["skipped"]) == (3, "1")


def test_import_counts_erased_threads_apart(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(0, user_id="ann"), run(1))
    assert Imported(path, project="acme").code == 0
    Subject.objects.filter(anonymous=False).update(state=Subject.State.ERASED)
    done = Imported(path, project="acme")
    assert (done.code, done.rows["erased"], done.rows["present"]) == (3, "1", "1")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"project": "nobody"}, "create_project"),
        ({"source": "a b"}, "--source"),
        ({"source": "mh.x"}, "--source"),
        ({"thread": "t-1"}, "--thread"),
        ({"thread": "t 1", "format": "chat"}, "--thread"),
        ({"agent_type": "x" * 129}, "--agent-type"),
        ({"report": "/"}, "write"),
    ],
)
def test_wrong_import_usage_is_refused_first(
    acme: Project, tmp_path: Path, options: dict[str, str], says: str
) -> None:
    done = Imported(array(tmp_path, run()), **{"project": "acme", **options})
    assert done.code == 2
    assert says in done.err
    assert Thread.objects.count() == 0


@pytest.mark.parametrize("name", ["no such.json", "a file.json", "-x.json", "."])
def test_import_refuses_an_unusable_file(
    acme: Project, tmp_path: Path, name: str
) -> None:
    array(tmp_path, run(), name="a file.json")
    assert Imported(tmp_path / name, project="acme").code == 2


@pytest.mark.parametrize("text", ["", "\n\n", "[]", '{"role": "critic"}\n'])
def test_import_of_no_record_is_wrong_usage(
    acme: Project, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "desk.jsonl"
    path.write_text(text)
    done = Imported(path, project="acme", skip_bad=True, quiet=True)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith("Nothing came in: ")
    assert Thread.objects.count() == 0


def test_skipped_import_record_leaves_no_thread_and_no_subject(
    acme: Project, tmp_path: Path
) -> None:
    good, bad = (
        build_message(thread="t-1"),
        build_message(thread="t-2", user_id="bob", at="noon"),
    )
    done = Imported(write_lines(tmp_path, good, bad), project="acme", skip_bad=True)
    assert done.code == 3
    other = write_lines(tmp_path, build_message(thread="t-1", user_id="bob"))
    assert Imported(other, project="acme", skip_bad=True).bad[0].endswith(" differs")
    assert [row.name for row in Thread.objects.all()] == ["t-1"]
    assert not Subject.objects.filter(anonymous=False).exists()


def test_session_file_is_imported_without_options(
    acme: Project, tmp_path: Path
) -> None:
    noted = {"type": "user", "sessionId": "s-1", "timestamp": "2026-05-01T08:00:00Z"}
    path = write_lines(tmp_path, {**noted, "message": build_message()})
    assert Imported(path, project="acme").code == 0
    assert Imported(path, project="acme").rows["present"] == "1"
    assert Thread.objects.get().name == "desk:s-1"


def test_file_of_unknown_format_is_refused(acme: Project, tmp_path: Path) -> None:
    content = b'{"type":"summary","summary":"mia.li3818"}\n'
    path = tmp_path / "desk.json"
    path.write_bytes(content)
    done = Imported(path, project="acme")
    assert done.code == 2
    assert "unknown_format" in done.err
    assert ", ".join(formats.FORMATS) in done.err
    assert CANARY not in done.err + done.out
    assert Thread.objects.count() == 0


def test_import_formats_are_a_closed_list(acme: Project, tmp_path: Path) -> None:
    assert Imported(array(tmp_path, run()), "--format=x", "--project=acme").code != 0


# bad records


def raw(run_: dict[str, Any], old: str = "", new: str = "") -> bytes:
    return json.dumps(run_).replace(old, new).encode()


def secret(task: int, **more: Any) -> dict[str, Any]:
    return run(
        task,
        messages=[build_message(CANARY), build_message("SPOT", "assistant")],
        **more,
    )


LARGE = 17 * 1_048_576
#: The mistake, the bad run, its code, and the text at the reported position.
BAD = {
    "role": (raw(secret(1), '"assistant"', '"critic"'), "role", b'{"role": "critic'),
    "nan": (raw(secret(1), '"SPOT"', "NaN"), "non_finite", b'{"role": "assistant'),
    "nul": (raw(secret(1), "SPOT", "\\u0000"), "nul", b'{"role": "assistant'),
    "large": (raw(secret(1), "SPOT", "x" * LARGE), "body_too_large", b"{"),
    "twice": (raw(secret(0)), "duplicate_run", b"{"),
    "no_trial": (raw(secret(1), '"trial"', '"try"'), "missing", b"{"),
}


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("what", BAD)
def test_bad_import_record_is_named_by_its_position(
    acme: Project,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    what: str,
    skip_bad: bool,
) -> None:
    bad, code, spot = BAD[what]
    before, after = raw(secret(0)), raw(secret(2))
    path = tmp_path / "desk.json"
    path.write_bytes(b"[" + before + b",\n\n " + bad + b",\n" + after + b"]")
    report = tmp_path / "report.ndjson"
    options = {"project": "acme", "skip_bad": skip_bad, "report": str(report)}
    done = Imported(path, **options)

    offset = 1 + len(before) + 4 + bad.index(spot)
    inside = " message=1" if spot != b"{" else ""
    # The refusal of a large value names the limit.
    limit = ": max_bytes: 16777216" if what == "large" else ""
    assert done.bad == [f"desk.json:3:{offset} run=1{inside} {code}{limit}"]
    assert json.loads(report.read_text(encoding="utf-8")) == {
        "file": str(path),
        "line": 3,
        "offset": offset,
        "run": 1,
        "message": 1 if inside else None,
        "code": code,
    }
    assert done.code == (3 if skip_bad else 1)
    assert Thread.objects.count() == (2 if skip_bad else 1)
    printed = "".join(capfd.readouterr())
    printed_at_all = done.out + done.err + printed + report.read_text(encoding="utf-8")
    assert CANARY not in printed_at_all


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("cut", [1, 20, 100])
def test_truncated_import_file_is_named_by_its_position(
    acme: Project, tmp_path: Path, cut: int, skip_bad: bool
) -> None:
    path = tmp_path / "desk.json"
    whole = b"[" + raw(secret(0)) + b",\n" + raw(secret(1)) + b"]"
    path.write_bytes(whole[:-cut])
    done = Imported(path, project="acme", skip_bad=skip_bad)
    place = f"desk.json:2:{len(whole) - cut}"
    assert done.bad == [
        f"{place} truncated" if cut == 1 else f"{place} run=1 truncated"
    ]
    assert done.code == 1
    assert Thread.objects.count() == (2 if cut == 1 else 1)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_bad_import_line_is_named_by_its_position(
    acme: Project, tmp_path: Path, skip_bad: bool
) -> None:
    path = write_lines(
        tmp_path,
        build_message(CANARY),
        build_message(CANARY, "critic"),
        build_message("x"),
    )
    done = Imported(path, project="acme", skip_bad=skip_bad)
    offset = path.read_bytes().index(b"\n") + 1
    assert done.bad == [f"desk.jsonl:2:{offset} message=1 role"]
    assert done.code == (3 if skip_bad else 1)
    assert CANARY not in done.out + done.err


def test_import_report_has_a_line_for_each_bad_record(
    acme: Project, tmp_path: Path
) -> None:
    path = array(tmp_path, run(0), run(0), run(1, 0, reward="x"), run(2))
    report = tmp_path / "report.ndjson"
    done = Imported(path, project="acme", skip_bad=True, report=str(report))
    listed = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
    assert [each["code"] for each in listed] == ["duplicate_run", "type"]
    assert done.rows["skipped"] == "2"


# progress


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def progress(out: StringIO, size_bytes: int | None) -> ImportProgress:
    counts = ImportCounts(runs=3, present=1, skipped=2, slots=1_200)
    made = ImportProgress(out, size_bytes=size_bytes, counts=counts)
    made.done = 250_000
    return made


def test_import_progress_line_shows_done_and_remaining() -> None:
    line = progress(StringIO(), 1_000_000).render_line(30.0)
    assert line == (
        " 25% · 3 runs · 1,200 slots · 1 present · 2 skipped · 40 slots/s · 1:30 left"
    )


def test_import_progress_line_without_a_size_has_no_bar() -> None:
    line = progress(StringIO(), None).render_line(30.0)
    assert line.startswith("0.2 MB · 3 runs · 1,200 slots")
    assert "left" not in line


def test_import_progress_is_redrawn_and_cleared_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    shown = progress(out, 1_000_000)
    assert shown.every == 0.1
    shown._draw(30.0)
    assert re.fullmatch(r"\r\x1b\[K█{5}░{15}  25% .{,33}", out.getvalue())
    shown.close()
    assert out.getvalue().endswith("\r\x1b[K")


def test_import_progress_off_a_terminal_is_a_line_every_ten_seconds() -> None:
    out = StringIO()
    shown = progress(out, 1_000_000)
    assert shown.every == 10
    shown._draw(30.0)
    assert out.getvalue().endswith("left\n")
    shown.close()
    assert out.getvalue().count("\n") == 1


def test_import_summary_names_warnings_by_code() -> None:
    counts = ImportCounts()
    counts.warnings.update({"unknown_call": 1_200, "extra_field": 1})
    summary = Summary(
        file="x",
        format="runs",
        complete=True,
        dry_run=False,
        counts=counts,
        read_bytes=1,
        took_seconds=2.0,
    )
    assert "warnings  extra_field 1, unknown_call 1,200" in summary.render_table()


def test_bad_record_line_tells_its_position_as_far_as_known() -> None:
    place = TextPosition(line=2, offset=30)
    assert render_bad_line("f", BadRecord(code="x", place=place)) == "f:2:30 x"
    whole = BadRecord(code="x", place=place, run=0, message=4)
    assert render_bad_line("f", whole) == "f:2:30 run=0 message=4 x"

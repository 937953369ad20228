"""Work that is killed; runs in an instance of its own, for the tests."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from django.core.management import execute_from_command_line
from django.db.backends.base.base import BaseDatabaseWrapper

from memoryhub.models.projects import Project
from memoryhub.services.access import projects
from tests.cast import recordings

#: The process dies just before a commit, or just after it.
MOMENTS = ("before", "after")
#: The project whose work nobody disturbs.
WHOLE = "whole"


def kill_everywhere(path: str, every: int, *words: str) -> None:
    """Kill an import at every n-th of its commits and repeat it; print the outcomes.

    Each is in a project of its own. `dumps` holds the outcome of each, `whole` that of
    an undisturbed import.
    """
    ends = {}
    for slug, end in kills(projects.create, partial(_import, path, *words), every):
        ends[slug] = end
        if slug != WHOLE:
            ends[f"{slug}-again"] = in_child(partial(_import, path, *words, slug=slug))
    dumps = {row.slug: recordings.dump(row) for row in Project.objects.all()}
    _print({"commits": ends.pop(WHOLE), "ends": ends, "dumps": dumps})


def measure(path: str, slug: str) -> None:
    """Import a file and print the peak memory of the process, in bytes."""
    projects.create(slug)
    _import(path, slug=slug)
    _print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _import(path: str, *more: str, slug: str) -> int:
    words = ["manage.py", "import", path, "--project", slug, "--source", "desk"]
    try:
        execute_from_command_line([*words, "--quiet", *more])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def kills(
    prepare: Callable[[str], object], work: Callable[..., object], every: int
) -> Iterator[tuple[str, int]]:
    """Kill the work around every n-th of its commits, each time on another project.

    `prepare` makes the project of a name, `work(slug=name)` is killed; each runs in a
    process of its own. Yields names and exit codes; the first, WHOLE, is disturbed by
    nobody and has the number of commits instead.
    """
    in_child(partial(prepare, WHOLE))
    commits = in_child(partial(count_commits, partial(work, slug=WHOLE)))
    assert 0 < commits < 255
    yield WHOLE, commits
    for moment in MOMENTS:
        for count in range(1, commits + 1, every):
            slug = f"{moment}-{count}"
            in_child(partial(prepare, slug))
            yield slug, in_child(partial(_die, partial(work, slug=slug), moment, count))


def _die(work: Callable[[], object], moment: str, count: int) -> object:
    die_at(moment, count)
    return work()


def in_child(work: Callable[[], object]) -> int:
    """Run work in a forked child; return its exit code, or minus a signal's number.

    The fork comes before any database is open, so that each has its own connections.
    """
    child = os.fork()
    if not child:
        try:
            result = work()
        except BaseException as failure:  # noqa: BLE001 # the end of this process
            sys.stderr.write(f"{failure!r}\n")
            os._exit(255)
        os._exit(result if isinstance(result, int) else 0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def told_by_child(work: Callable[[], str]) -> str:
    """Run a piece of work in a process of its own and return its result."""
    read, write = os.pipe()

    def tell() -> int:
        os.close(read)
        with os.fdopen(write, "w") as out:
            out.write(work())
        return 0

    code = in_child(tell)
    os.close(write)
    with os.fdopen(read) as found:
        text = found.read()
    assert code == 0
    return text


def count_commits(work: Callable[[], object]) -> int:
    """Return the number of commits that a piece of work makes in this process."""
    commits = 0

    def count_commit() -> None:
        nonlocal commits
        commits += 1

    watch_commits(after=count_commit)
    work()
    return commits


def die_at(moment: str, count: int) -> None:
    """Arm the kill of this process around its n-th commit from here."""
    left = count

    def die() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    hooks: dict[str, Callable[[], None]] = {moment: die}
    watch_commits(**hooks)


def watch_commits(
    *,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Call functions around each commit, of either database."""
    commit = BaseDatabaseWrapper.commit

    def watched(connection: BaseDatabaseWrapper) -> Any:
        before()
        result = commit(connection)
        after()
        return result

    BaseDatabaseWrapper.commit = watched  # type: ignore[method-assign, assignment]  # to die


def _print(value: Any) -> None:
    sys.stdout.write(json.dumps(value))

"""Anthropic's memory tool and a real server: the SDK's own tool, and other writers."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anthropic")

import anthropic
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub_client import AsyncClient, Client, blocks, subjects, threads
from memoryhub_client.anthropic_memory import AsyncHubMemoryTool, HubMemoryTool
from memoryhub_client.memory_files import build_block_name, parse_file
from tests.harness.instances import Instance, Server
from tests.sources.files import ROOT

#: The SDK's tool took other newlines for `\n` until version 2.
NEWLINES = "" if anthropic.__version__ < "2" else "\r\x0b\u2028"


@pytest.fixture
def client(served: Server, key: str) -> Iterator[Client]:
    with Client(served.url, key) as client:
        yield client


@pytest.fixture
def subject(client: Client) -> str:
    client.send(threads.put("talk", user_id="ann"))
    return str(client.send(subjects.resolve("ann"))["id"])


@pytest.fixture
def tool(client: Client, subject: str) -> HubMemoryTool:
    return HubMemoryTool(client, subject=subject)


@pytest.fixture(params=["sync", "async"])
def either(
    request: pytest.FixtureRequest, served: Server, key: str, tool: HubMemoryTool
) -> Iterator[Any]:
    """Return the tool, or the asynchronous one, whose calls run to their end."""
    if request.param == "sync":
        yield tool
        return
    with asyncio.Runner() as runner:
        client = AsyncClient(served.url, key)
        other = AsyncHubMemoryTool(client, thread="talk")

        class Awaited:
            def call(self, command: Any) -> Any:
                return runner.run(_wait(other.call(command)))

            def clear_all_memory(self) -> Any:
                return runner.run(_wait(other.clear_all_memory()))

        yield Awaited()
        runner.run(client.close())


async def _wait(done: Any) -> Any:
    return await done


def call(tool: Any, *raised: type[Exception], **command: Any) -> str:
    """Return the text for the model, as the SDK's tool runner makes it.

    An error of a file system is without its paths, which the SDK's tool has elsewhere.
    """
    try:
        return str(tool.call(command))
    except ToolError as refusal:
        return re.sub(r"(?s)(\[Errno .*?): '.*", r"\1", f"error: {refusal.content}")
    except OSError as failure:
        return f"error: [Errno {failure.errno}] {failure.strerror}"
    except raised as failure:
        return f"error: {failure!r}"


# The same as files

PARTS = [*("a", "b", "..", ".", "", ".h", "ü x", "a:b", "@3a", "@@2", "%2e%2e", "A\\b")]
ROOTS = ["/memories/"] * 6 + ["/memories", "/memories//", "/memories/a/", "/tmp/", ""]
paths = st.one_of(
    st.builds(
        lambda root, parts: root + "/".join(parts),
        st.sampled_from(ROOTS),
        st.lists(st.sampled_from(PARTS), max_size=4),
    ),
    *[st.sampled_from(["/memories/a", "/memories/b/a", "/memories/b/b/a"])] * 3,
    st.sampled_from(["/memories/../memories/a", "/memories/../x", "/memories/a\0"]),
)
texts = st.text("ab\n\n é" + NEWLINES, max_size=8)
fields: dict[str, dict[str, Any]] = {
    "view": {"path": paths, "view_range": st.lists(st.integers(-3, 9), max_size=3)},
    "create": {"path": paths, "file_text": texts},
    "str_replace": {
        "path": paths,
        "old_str": st.text("ab\n", max_size=2),
        "new_str": texts,
    },
    "insert": {
        "path": paths,
        "insert_line": st.integers(-1, 4),
        "insert_text": texts,
    },
    "delete": {"path": paths},
    "rename": {"old_path": paths, "new_path": paths},
}
commands = st.sampled_from([*fields, "create", "create", "rename"]).flatmap(
    lambda name: st.fixed_dictionaries({"command": st.just(name), **fields[name]})
)


def delete_empty_folders(root: Path) -> None:
    for folder, _, _ in os.walk(root, topdown=False):
        if Path(folder) != root and not any(Path(folder).iterdir()):
            Path(folder).rmdir()


def _is_changed(command: dict[str, Any]) -> bool:
    """Return whether the command names `/memories` in a way that version 2 changed."""
    path = command.get("old_path", command.get("path"))
    rooted = os.path.normpath(str(path)).lstrip("/") == "memories"
    return not NEWLINES and rooted and command["command"] in ("delete", "rename")


#: Renames whose error depends on which of several a file system finds first.
RENAMES = [
    *(("a/c", "a/c/d"), ("a", "a/d"), ("d", "d"), ("d", "d/e"), ("d/e", "d/e/f/g")),
    *(("a/c", "d"), ("a/c", "a/e"), ("x/y", "a/c"), ("x", "a/c"), ("d/x", "a/c/e")),
    *(("x/y", "a/c/e"), ("b", "b/d"), ("x", "x/y"), ("b/x", "a/c"), ("x", "y/z")),
]
HARD: list[dict[str, Any]] = [
    {"command": "create", "path": "/memories/a", "file_text": "aaaa\naaa\n"},
    {"command": "create", "path": "/memories/b/a", "file_text": ""},
    {"command": "create", "path": "/memories/d/e/f", "file_text": "x" * 1_100},
    {
        "command": "str_replace",
        "path": "/memories/a",
        "old_str": "aa",
        "new_str": "",
    },
    *(
        {
            "command": "rename",
            "old_path": f"/memories/{old}",
            "new_path": f"/memories/{new}",
        }
        for old, new in RENAMES
    ),
]

_NEW = {"command": "create", "path": "/memories/new", "file_text": "new\n"}
_AWAY = {
    "command": "rename",
    "old_path": "/memories/new",
    "new_path": "/memories/old",
}
_OLD = {"command": "delete", "path": "/memories/old"}
#: Files created where one was renamed away, with that one still there and deleted.
AGAIN: list[dict[str, Any]] = [_NEW, _AWAY, _NEW, _OLD, _AWAY, _NEW, _OLD, _AWAY, _NEW]


@settings(max_examples=40)
@example(given=HARD)
@example(given=AGAIN)
@given(st.lists(commands, max_size=25))
def test_tool_answers_as_the_tool_of_the_sdk_does(
    either: Any, tmp_path_factory: pytest.TempPathFactory, given: list[dict[str, Any]]
) -> None:
    files: Any = BetaLocalFilesystemMemoryTool(str(tmp_path_factory.mktemp("files")))
    either.clear_all_memory()
    last = {"command": "view", "path": "/memories"}
    for command in [*given, last]:
        if _is_changed(command):
            continue
        answer = call(files, OSError, ValueError, **command)
        delete_empty_folders(files.memory_root)
        if answer.startswith("Here're"):
            # File systems differ in the size of a folder.
            answer = re.sub(r"(?m)\n\S+(\t.*)", r"\n4K\1", answer, count=1)
            answer = re.sub(r"(?m)^\S+(\t.*/)$", r"4K\1", answer)
        assert call(either, **command) == answer, command


@pytest.mark.parametrize(
    "command",
    [
        *({"command": "view"}, {"command": "create", "path": "/memories/b"}),
        {"command": "view", "path": "/memories/a", "view_range": ["1", 2]},
        {"command": "str_replace", "path": "/memories/a"},
        {"command": "str_replace", "path": "/memories/a", "old_str": "a"},
        {"command": "insert", "path": "/memories/a"},
        {"command": "insert", "path": "/memories/a", "insert_line": 1},
        *({"command": "rename", "old_path": "/memories/a"}, {"command": "delete"}),
    ],
)
def test_malformed_command_has_the_error_of_the_sdk(
    tool: HubMemoryTool, tmp_path: Path, command: dict[str, Any]
) -> None:
    files = BetaLocalFilesystemMemoryTool(str(tmp_path))
    for each in (files, tool):
        call(each, command="create", path="/memories/a", file_text="a")
    assert call(tool, **command) == call(files, Exception, **command)


# Refusals


def test_key_without_the_scope_gets_the_error_of_the_tool(
    client: Client, served: Server, shared: Instance, project: str, subject: str
) -> None:
    reader = shared.managed("create_key", project, "--scopes=memory:read").strip()
    with Client(served.url, reader) as reading:
        tool = HubMemoryTool(reading, subject=subject)
        made = call(tool, command="create", path="/memories/a", file_text="a")
        assert made.startswith("error: The memory refused the command: ")
        listed = call(tool, command="view", path="/memories")
        assert listed.endswith("hidden items:\n4K\t/memories")


@pytest.mark.parametrize(
    ("path", "text", "error"),
    [
        ("/memories/a", "x" * 10_000_000, "The file would have 10000000 bytes. A file"),
        ("/memories/a", "a\0", "The memory refused the command: `text` takes texts"),
        ("/memories/a", "a\ud800", "U+D800 is half a surrogate pair"),
        ("/memories/\udfff", "", "U+DFFF is half a surrogate pair"),
        (f"/memories/{'x' * 256}", "", "[Errno 36] File name too long"),
        (f"/memories{'/x' * 501}", "", "[Errno 36] File name too long"),
        ("/memories/" + "../" * 9 + "memories/a", "", "Path /memories/../"),
    ],
)
def test_tool_refuses_what_a_block_can_not_hold(
    tool: HubMemoryTool, path: str, text: str, error: str
) -> None:
    made = call(tool, command="create", path=path, file_text=text)
    assert made.startswith(f"error: {error}")
    assert tool.call({"command": "view", "path": "/memories"}) == EMPTY


def test_error_of_a_file_system_names_the_path(tool: HubMemoryTool) -> None:
    call(tool, command="create", path="/memories/d", file_text="a")
    below, refused = "/memories/d/b.txt", r"\[Errno 20\] Not a directory: "
    with pytest.raises(ToolError, match=f"^{refused}'{below}'$"):
        tool.call({"command": "create", "path": below, "file_text": "a"})
    renamed = {"command": "rename", "old_path": "/memories/d", "new_path": below}
    with pytest.raises(ToolError, match=f"^{refused}'/memories/d' -> '{below}'$"):
        tool.call(renamed)


EMPTY = (
    "Here're the files and directories up to 2 levels deep in /memories, "
    "excluding hidden items:\n4K\t/memories"
)


def test_read_only_file_can_not_be_changed(
    tool: HubMemoryTool, client: Client, subject: str
) -> None:
    fixed = build_block_name("rules/a")
    client.send(blocks.put(subject, fixed, "Be kind.", read_only=True))
    path = "/memories/rules/a"
    for command in (
        {"command": "str_replace", "path": path, "old_str": "kind", "new_str": "rude"},
        {"command": "delete", "path": "/memories/rules"},
        {"command": "rename", "old_path": path, "new_path": "/memories/b"},
    ):
        assert "read-only" in call(tool, **command)
    assert client.send(blocks.get(subject, fixed))["version"] == 1


def test_unreachable_hub_is_an_error_of_the_tool() -> None:
    with Client("http://127.0.0.1:9", "mh_live_x", retries=0) as nobody:
        tool = HubMemoryTool(nobody, thread="talk")
        assert "can't be reached" in call(tool, command="view", path="/memories")


# Other writers


def test_concurrent_writers_lose_no_update(tool: HubMemoryTool) -> None:
    lines = [f"line {n}" for n in range(16)]
    call(tool, command="create", path="/memories/a", file_text="last\n")

    def insert(line: str) -> str:
        fields = {"path": "/memories/a", "insert_line": 0, "insert_text": line}
        return call(tool, command="insert", **fields)

    with ThreadPoolExecutor(8) as pool:
        assert {*pool.map(insert, lines)} == {"The file /memories/a has been edited."}
    shown = call(tool, command="view", path="/memories/a")
    assert sorted(re.findall(r"\d+\t(line .*)", shown)) == sorted(lines)


def test_concurrent_creators_make_one_file(tool: HubMemoryTool) -> None:
    def create(text: str) -> str:
        return call(tool, command="create", path="/memories/a", file_text=text)

    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            made = [*pool.map(create, "abcd")]
        assert made.count("error: File /memories/a already exists") == 3
        assert made.count("File created successfully at: /memories/a") == 1
        call(tool, command="delete", path="/memories/a")


def test_rename_takes_along_what_others_write_meanwhile(
    tool: HubMemoryTool, client: Client, subject: str
) -> None:
    call(tool, command="create", path="/memories/a", file_text="first")
    send = client.send

    def send_late(request: Any) -> Any:
        if request.path.endswith("/rename") and not written:
            written.append(send(blocks.put(subject, build_block_name("a"), "second")))
        return send(request)

    written: list[Any] = []
    client.send = send_late  # type: ignore[method-assign]
    call(tool, command="rename", old_path="/memories/a", new_path="/memories/b")
    assert call(tool, command="view", path="/memories/b").endswith("     1\tsecond")
    assert call(tool, command="view", path="/memories").count("\n") == 2


@pytest.mark.slow
def test_folder_is_renamed_when_the_subject_is_full(
    tool: HubMemoryTool, client: Client, subject: str
) -> None:
    for n in range(198):
        client.send(blocks.put(subject, f"other-{n}", ""))
    for name in "ab":
        call(tool, command="create", path=f"/memories/x/{name}", file_text=name)
    listed = call(tool, command="view", path="/memories")
    moved = call(tool, command="rename", old_path="/memories/x", new_path="/memories/y")
    assert moved == "Successfully renamed /memories/x to /memories/y"
    shown = call(tool, command="view", path="/memories")
    assert shown == listed.replace("/memories/x", "/memories/y")


def test_renamed_folder_moves_back_when_a_file_of_it_is_refused(
    tool: HubMemoryTool, client: Client, subject: str
) -> None:
    for name in "ab":
        call(tool, command="create", path=f"/memories/x/{name}", file_text=name)
    listed = call(tool, command="view", path="/memories")
    send = client.send

    def send_late(request: Any) -> Any:
        if request.path.endswith("x:b/rename"):
            fixed = build_block_name("x/b")
            send(blocks.put(subject, fixed, "b", read_only=True))
        return send(request)

    client.send = send_late  # type: ignore[method-assign]
    moved = call(tool, command="rename", old_path="/memories/x", new_path="/memories/y")
    assert moved.startswith("error: The memory refused the command: The block is read")
    assert call(tool, command="view", path="/memories") == listed


# Names


@given(st.lists(st.text(min_size=1).filter(lambda part: "/" not in part), min_size=1))
def test_block_names_of_paths_are_reversible(parts: list[str]) -> None:
    path = "/".join(parts)
    for generation in (1, 2, 999_999_999):
        name = build_block_name(path, generation)
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}", name)
        block = {"block": name, "version": 1, "text": "", "read_only": False}
        file = parse_file({**block, "description": path})
        assert file is not None
        assert file.path == path


@pytest.mark.parametrize("block", ["persona", "memories:a@@x", "memories:@zz"])
def test_blocks_without_the_prefix_are_no_files(block: str) -> None:
    fields = {"version": 1, "text": "", "read_only": False, "description": "of a"}
    assert parse_file({"block": block, **fields}) is None


# The SDK's tool runner


def test_example_remembers_from_one_thread_to_the_next(
    served: Server, key: str
) -> None:
    where = {"MEMORYHUB_URL": served.url, "MEMORYHUB_KEY": key, "PYTHONPATH": "."}
    shown = subprocess.check_output(
        [sys.executable, "examples/anthropic_memory.py"],
        env={**os.environ, **where},
        cwd=ROOT,
        text=True,
        timeout=60,
    )
    assert shown.splitlines()[1:] == [
        "File created successfully at: /memories/travel/seat.md",
        "> Which seat do I like?",
        "Here's the content of /memories/travel/seat.md with line numbers:",
        "     1\tLikes the window.",
        "     2\t",
        "memories:travel:seat.md 1 Likes the window.",
        "",
    ]

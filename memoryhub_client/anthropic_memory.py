"""Anthropic's memory tool `memory_20250818`, whose files are blocks of a subject.

memory = HubMemoryTool(Client("http://127.0.0.1:8000", key), thread="talk")
runner = anthropic.beta.messages.tool_runner(tools=[memory], ...)

Texts and errors are those of `BetaLocalFilesystemMemoryTool` of anthropic 2.14, but:

- A folder without files does not exist.
- A file holds 64 KiB without U+0000, a path 1,000 bytes, and a subject 200 blocks.
- The size of each folder is shown as 4K.
- Every failure is a `ToolError`; the SDK's tool raises errors of Python as well. What a
  file system refuses names the path, where the SDK's tool runner gives the model
  `NotADirectoryError(20, 'Not a directory')`; half a surrogate pair has words, too.

A lost update is impossible: each write names the version of the block that it is based
on, and a command that was slower than another writer starts again. Each file of a
folder is renamed in one transaction, but not all of them together. The hub can't check
two names at once: a file and a folder that are created at one moment may share a path.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from memoryhub_client import blocks, thread_blocks
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.client import Client
from memoryhub_client.extras import require_extra
from memoryhub_client.memory_files import (
    ROOT,
    TRIES,
    FileRefusal,
    FileStore,
    FileTree,
    FileVanished,
    MemoryFile,
    build_os_error,
    parse_path,
    require_writable,
)
from memoryhub_client.problems import Conflict, Problem, Unreachable
from memoryhub_client.steps import Steps, arun_steps, run_steps

with require_extra("anthropic"):
    from anthropic.lib.tools import ToolError
    from anthropic.tools.memory import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
    )
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand as CreateCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818DeleteCommand as DeleteCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818InsertCommand as InsertCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818RenameCommand as RenameCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818StrReplaceCommand as StrReplaceCommand,
    )
    from anthropic.types.beta import (
        BetaMemoryTool20250818ViewCommand as ViewCommand,
    )

FOLDER_SIZE = 4_096
#: Columns of a line's number.
NUMBER_WIDTH = 6


class HubMemoryTool(BetaAbstractMemoryTool):
    """The memory tool of a subject, named by its id or by one of its threads."""

    def __init__(
        self,
        hub: Client,
        *,
        subject: str | None = None,
        thread: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.hub, self.files = hub, build_store(subject, thread)

    def view(self, command: ViewCommand) -> str:
        return self._run(view_path, command)

    def create(self, command: CreateCommand) -> str:
        return self._run(create_file, command)

    def str_replace(self, command: StrReplaceCommand) -> str:
        return self._run(replace_text, command)

    def insert(self, command: InsertCommand) -> str:
        return self._run(insert_text, command)

    def delete(self, command: DeleteCommand) -> str:
        return self._run(delete_path, command)

    def rename(self, command: RenameCommand) -> str:
        return self._run(rename_path, command)

    def clear_all_memory(self) -> str:
        return self._run(clear_files, None)

    def _run(self, steps: CommandSteps, command: Any) -> str:
        return run_steps(self.hub, run_command(steps, self.files, command))


class AsyncHubMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for an `AsyncClient`, else as `HubMemoryTool`."""

    def __init__(
        self,
        hub: AsyncClient,
        *,
        subject: str | None = None,
        thread: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.hub, self.files = hub, build_store(subject, thread)

    async def view(self, command: ViewCommand) -> str:
        return await self._run(view_path, command)

    async def create(self, command: CreateCommand) -> str:
        return await self._run(create_file, command)

    async def str_replace(self, command: StrReplaceCommand) -> str:
        return await self._run(replace_text, command)

    async def insert(self, command: InsertCommand) -> str:
        return await self._run(insert_text, command)

    async def delete(self, command: DeleteCommand) -> str:
        return await self._run(delete_path, command)

    async def rename(self, command: RenameCommand) -> str:
        return await self._run(rename_path, command)

    async def clear_all_memory(self) -> str:
        return await self._run(clear_files, None)

    async def _run(self, steps: CommandSteps, command: Any) -> str:
        return await arun_steps(self.hub, run_command(steps, self.files, command))


def build_store(subject: str | None, thread: str | None) -> FileStore:
    routes: ModuleType
    routes, owner = (blocks, subject) if thread is None else (thread_blocks, thread)
    if owner is None or (subject and thread):
        raise TypeError("Name either a subject or a thread.")
    return FileStore(routes, owner)


# Commands

CommandSteps = Callable[[FileStore, Any], Steps[str]]


def run_command(steps: CommandSteps, files: FileStore, command: Any) -> Steps[str]:
    """Run a command, again if another writer was faster. Raises ToolError only.

    Other errors of Python, such as that of a command without a field, have the texts
    that the SDK's tool runner gives the model for them.
    """
    for left in reversed(range(TRIES)):
        try:
            return (yield from steps(files, command))
        except FileRefusal as refusal:
            raise ToolError(str(refusal)) from refusal
        except OSError as failure:
            raise ToolError(str(failure)) from failure
        except UnicodeEncodeError as failure:
            # Its own text is the whole content that the model sent.
            half = ord(failure.object[failure.start])
            text = f"U+{half:04X} is half a surrogate pair, which no text can hold."
            raise ToolError(text) from failure
        except (AttributeError, TypeError, ValueError) as failure:
            raise ToolError(repr(failure)) from failure
        except Problem as refusal:
            slower = refusal.code in ("stale", "name_taken")
            if not isinstance(refusal, Conflict) or not slower or not left:
                text = f"The memory refused the command: {refusal.detail}"
                raise ToolError(text) from refusal
        except Unreachable as failure:
            text = "The memory can't be reached. View the path before you try again."
            raise ToolError(text) from failure
    raise AssertionError("the last try returns or raises")


def view_path(files: FileStore, command: ViewCommand) -> Steps[str]:
    """Show a file with line numbers, or a folder two levels deep."""
    path, shown = parse_path(command.path), command.path
    tree = yield from files.list_files()
    if path not in tree and tree.is_folder(path):
        sizes = {"": FOLDER_SIZE, **dict(iter_items(tree, path))}
        lines = [
            f"{render_size(size)}\t{shown}" + (f"/{name}" if name else "")
            for name, size in sizes.items()
        ]
        return (
            "Here're the files and directories up to 2 levels deep in "
            f"{shown}, excluding hidden items:\n" + "\n".join(lines)
        )
    lines = require_file(tree, path, shown).text.split("\n")
    first, end = 0, len(lines)
    if command.view_range and len(command.view_range) == 2:
        first = max(1, command.view_range[0]) - 1
        end = end if command.view_range[1] == -1 else command.view_range[1]
    return f"Here's the content of {shown} with line numbers:\n" + render_lines(
        lines[first:end], first
    )


def create_file(files: FileStore, command: CreateCommand) -> Steps[str]:
    path = parse_path(command.path)
    tree = yield from files.list_files()
    if tree.has_file_above(path):
        raise build_os_error(errno.ENOTDIR, command.path)
    if tree.has_path(path):
        raise FileRefusal(f"File {command.path} already exists")
    yield from files.create_file(path, command.file_text)
    return f"File created successfully at: {command.path}"


def replace_text(files: FileStore, command: StrReplaceCommand) -> Steps[str]:
    """Replace the only occurrence of a text; show the lines around it."""
    path, old = parse_path(command.path), command.old_str
    tree = yield from files.list_files()
    file = require_file(tree, path, command.path)
    count = file.text.count(old)
    if count == 0:
        raise FileRefusal(
            f"No replacement was performed, old_str `{old}` did not appear verbatim "
            f"in {command.path}."
        )
    if count > 1:
        lines = ", ".join(map(str, iter_lines_of(file.text, old)))
        raise FileRefusal(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` "
            f"in lines: {lines}. Please ensure it is unique"
        )
    text = file.text.replace(old, command.new_str)
    yield from files.write_text(file, text)
    line = file.text.count("\n", 0, file.text.find(old))
    first = max(0, line - 2)
    return (
        "The memory file has been edited. Here is the snippet showing the change "
        "(with line numbers):\n"
        + render_lines(text.split("\n")[first : line + 3], first)
    )


def insert_text(files: FileStore, command: InsertCommand) -> Steps[str]:
    """Insert lines after a line; the file ends with a newline from then on."""
    path, line = parse_path(command.path), command.insert_line
    tree = yield from files.list_files()
    file = require_file(tree, path, command.path)
    lines = file.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if line < 0 or line > len(lines):
        raise FileRefusal(
            f"Invalid `insert_line` parameter: {line}. "
            f"It should be within the range [0, {len(lines)}]."
        )
    lines.insert(line, command.insert_text.rstrip("\n"))
    text = "\n".join(lines)
    yield from files.write_text(file, text if text.endswith("\n") else f"{text}\n")
    return f"The file {command.path} has been edited."


def delete_path(files: FileStore, command: DeleteCommand) -> Steps[str]:
    """Delete a file, or a folder with all its files."""
    path = parse_path(command.path)
    if not path:
        raise FileRefusal(f"Cannot delete the {ROOT} directory itself")
    tree = yield from files.list_files()
    found = tree.list_below(path)
    if not found:
        raise FileRefusal(f"The path {command.path} does not exist")
    yield from delete_files(files, found)
    return f"Successfully deleted {command.path}"


def rename_path(files: FileStore, command: RenameCommand) -> Steps[str]:
    """Move a file, or a folder with all its files."""
    old, new = parse_path(command.old_path), parse_path(command.new_path)
    if not old:
        raise FileRefusal(f"Cannot rename the {ROOT} directory itself")
    tree = yield from files.list_files()
    if tree.has_path(new):
        raise FileRefusal(f"The destination {command.new_path} already exists")
    found = tree.list_below(old)
    if number := find_rename_error(tree, old, new):
        raise build_os_error(number, command.old_path, command.new_path)
    moves = [(file, new + file.path.removeprefix(old)) for file in found]
    moved = yield from files.move_files(moves)
    if not moved:
        raise FileRefusal(f"The path {command.old_path} does not exist")
    return f"Successfully renamed {command.old_path} to {command.new_path}"


def clear_files(files: FileStore, _: None) -> Steps[str]:
    """Delete all files; blocks that are no files stay."""
    yield from delete_files(files, [*(yield from files.list_files()).values()])
    return "All memory cleared"


def delete_files(files: FileStore, found: list[MemoryFile]) -> Steps[None]:
    for file in found:
        require_writable(file)
    for file in found:
        with suppress(FileVanished):
            yield from files.delete_file(file)


# Files and texts


def require_file(tree: FileTree, path: str, shown: str) -> MemoryFile:
    """Return the file. Raises FileRefusal if nothing is there, or a folder."""
    if file := tree.get(path):
        return file
    if tree.is_folder(path):
        raise FileRefusal(f"The path {shown} is not a file.")
    raise FileRefusal(f"The path {shown} does not exist. Please provide a valid path.")


def find_rename_error(tree: FileTree, old: str, new: str) -> int | None:
    """Return the error number that a file system has for a rename, in its order."""
    folder = new.rpartition("/")[0]
    if tree.has_file_above(folder) or tree.has_file_above(old):
        # The SDK's tool makes the folder before it looks for the old path.
        return errno.ENOTDIR
    if folder in tree and tree.is_folder(old.rpartition("/")[0]):
        return errno.ENOTDIR
    return errno.EINVAL if new.startswith(f"{old}/") else None


def iter_items(tree: FileTree, path: str) -> Iterator[tuple[str, int]]:
    """Yield names and sizes of a folder's items, two levels deep, without hidden ones.

    Items are sorted by name; a folder's items follow the folder.
    """
    items: dict[tuple[str, ...], tuple[str, int]] = {}
    for file in tree.list_below(path):
        parts = file.path.removeprefix(path).strip("/").split("/")
        for depth, part in enumerate(parts[:2], 1):
            if part.startswith("."):
                break
            name, size = "/".join(parts[:depth]), len(file.text.encode())
            if depth < len(parts):
                name, size = f"{name}/", FOLDER_SIZE
            items[tuple(parts[:depth])] = name, size
    for _, item in sorted(items.items()):
        yield item


def iter_lines_of(text: str, part: str) -> Iterator[int]:
    """Yield the line numbers of all occurrences, also of those that overlap."""
    line, past, at = 1, 0, text.find(part)
    while at >= 0:
        line, past = line + text.count("\n", past, at), at
        yield line
        at = text.find(part, at + 1)


def render_lines(lines: list[str], before: int) -> str:
    return "\n".join(
        f"{number:>{NUMBER_WIDTH}}\t{line}"
        for number, line in enumerate(lines, before + 1)
    )


def render_size(size: int) -> str:
    """Render a number of bytes below a MiB."""
    if size < 1_024:
        return f"{size}B"
    return f"{size / 1_024:.1f}".removesuffix(".0") + "K"

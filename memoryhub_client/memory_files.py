"""Files of a memory folder as blocks of a subject.

The file `/memories/notes/to do.md` is the block `memories:notes:to@20do.md`. The hub
never uses the first name of a block again, once it was deleted or renamed: the path's
next file has a name that ends with `@@2`. The name of a long path ends with a digest,
and the block's description is the path. A folder exists as long as there is a file in
it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from types import ModuleType
from typing import Any

from memoryhub_client.escapes import MAX_NAME, escape_name, unescape_name
from memoryhub_client.problems import Gone, NotFound, Problem
from memoryhub_client.requests import Request
from memoryhub_client.steps import Steps

ROOT, PREFIX = "/memories", "memories:"
#: Most bytes of a block's text, and of a path, which must fit in a description.
MAX_BYTES, MAX_PATH = 65_536, 1_000
#: Most bytes of a file's name on most file systems.
MAX_PART = 255
#: Attempts of a write that loses to other writers: one of them succeeds each time.
TRIES = 50


class FileRefusal(Exception):
    """A command that the state of the files does not allow; the text is for a model."""


class FileVanished(Exception):
    """The block of a file was deleted since it was read."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file, as of the version of its block; `path` is below `/memories`."""

    path: str
    block: str
    version: int
    text: str
    description: str = ""
    read_only: bool = False


# Paths


def parse_path(path: str) -> str:
    """Return the path below `/memories` without dots; empty for `/memories` itself.

    Raises FileRefusal for a path that leads outside, OSError for one that is too long.
    """
    if not path.startswith(ROOT):
        raise FileRefusal(f"Path must start with {ROOT}, got: {path}")
    if "\0" in path:
        raise ValueError("embedded null byte")
    root = ROOT.strip("/")
    parts = [root]
    for part in path.removeprefix(ROOT).split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part == "..":
            parts = [""]
            break
        elif part not in ("", "."):
            parts.append(part)
    if parts[:1] != [root]:
        raise FileRefusal(f"Path {path} would escape {ROOT} directory")
    below = "/".join(parts[1:])
    longest = max(len(part.encode()) for part in parts)
    if longest > MAX_PART or len(below.encode()) > MAX_PATH:
        raise build_os_error(errno.ENAMETOOLONG, path)
    return below


def build_os_error(number: int, path: str, other: str | None = None) -> OSError:
    """Build the error of a file system, about one path or a rename's two."""
    return OSError(number, os.strerror(number), path, None, other)


def build_block_name(path: str, generation: int = 1) -> str:
    """Build the name of the block of the path's first, second … file."""
    name = PREFIX + ":".join(escape_name(part) for part in path.split("/"))
    suffix = "" if generation == 1 else f"@@{generation}"
    # A generation has nine digits at most.
    if len(name) > MAX_NAME - 11:
        digest = blake2b(path.encode(), digest_size=16).hexdigest()
        name = f"{name[:70]}@@h{digest}"
    return name + suffix


def parse_file(block: dict[str, Any]) -> MemoryFile | None:
    """Return the file of a block; None for a block that is no file."""
    name = str(block["block"])
    if not name.startswith(PREFIX):
        return None
    safe, *marks = name.removeprefix(PREFIX).split("@@")
    generation = 1
    if marks and marks[-1].isdigit():
        generation = int(marks.pop())
    path = block["description"]
    if not marks:
        path = "/".join(unescape_name(part) for part in safe.split(":"))
    if build_block_name(path, generation) != name:
        return None
    return MemoryFile(
        path,
        name,
        block["version"],
        block["text"] or "",
        block["description"],
        block["read_only"],
    )


# The tree


class FileTree(dict[str, MemoryFile]):
    """Files by their paths."""

    def is_folder(self, path: str) -> bool:
        return path == "" or any(each.startswith(f"{path}/") for each in self)

    def has_path(self, path: str) -> bool:
        return path in self or self.is_folder(path)

    def has_file_above(self, path: str) -> bool:
        """Return whether a folder that the path needs is a file."""
        return any(path.startswith(f"{each}/") for each in self)

    def list_below(self, path: str) -> list[MemoryFile]:
        """List the file of the path, or all files of the folder."""
        start = f"{path}/" if path else ""
        return [
            file
            for each, file in self.items()
            if each == path or each.startswith(start)
        ]


# Requests and their answers


@dataclass(frozen=True, slots=True)
class FileStore:
    """The files of a subject; `routes` addresses its blocks by `owner`."""

    routes: ModuleType
    owner: str

    def list_files(self) -> Steps[FileTree]:
        blocks = (yield self.routes.list_all(self.owner))["items"]
        files = [file for block in blocks if (file := parse_file(block))]
        return FileTree((file.path, file) for file in files)

    def create_file(
        self, path: str, text: str, *, description: str = ""
    ) -> Steps[MemoryFile]:
        """Create a file where none is. Raises Conflict if there is one by now.

        A generation is used only once all before it were deleted, so that of concurrent
        creators of a path one succeeds.
        """
        if "@@" in build_block_name(path):
            description = path
        generation = 1
        while True:
            name = build_block_name(path, generation)
            try:
                put = self._build_put(name, text, version=0, description=description)
                version = (yield put)["version"]
            except Gone as refusal:
                if refusal.code != "page_erased":
                    raise
                generation = yield from self._find_generation(path, generation)
            else:
                return MemoryFile(path, name, version, text, description)

    def _find_generation(self, path: str, deleted: int) -> Steps[int]:
        """Find the first generation after those that were deleted."""
        step = 1
        while (yield from self._is_deleted(path, deleted + step)):
            deleted, step = deleted + step, step * 2
        unused = deleted + step
        while unused - deleted > 1:
            middle = (deleted + unused) // 2
            if (yield from self._is_deleted(path, middle)):
                deleted = middle
            else:
                unused = middle
        return unused

    def _is_deleted(self, path: str, generation: int) -> Steps[bool]:
        try:
            yield self.routes.get(self.owner, build_block_name(path, generation))
        except NotFound:
            return False
        except Gone as refusal:
            if refusal.code != "page_erased":
                raise
            return True
        return False

    def write_text(self, file: MemoryFile, text: str) -> Steps[MemoryFile]:
        """Write the file's next version. Raises Conflict if the file was changed."""
        put = self._build_put(file.block, text, version=file.version)
        version = (yield put)["version"]
        return MemoryFile(file.path, file.block, version, text, file.description)

    def delete_file(self, file: MemoryFile) -> Steps[None]:
        """Delete the file. Raises Conflict if it was changed, FileVanished if gone."""
        require_writable(file)
        try:
            yield self.routes.delete(self.owner, file.block, if_match=file.version)
        except (NotFound, Gone) as refusal:
            if refusal.code not in ("page_unknown", "page_erased"):
                raise
            raise FileVanished from refusal

    def move_files(self, moves: Iterable[tuple[MemoryFile, str]]) -> Steps[int]:
        """Rename the blocks of all files; return how many were there to move.

        Each file moves in one transaction. If one is refused, those before move back.
        """
        moved: list[tuple[MemoryFile, str]] = []
        moves = [*moves]
        for file, _ in moves:
            require_writable(file)
        try:
            for file, path in moves:
                if name := (yield from self._rename_block(file, path)):
                    moved.append((file, name))
        except Problem:
            for file, name in reversed(moved):
                with suppress(Problem):
                    yield self._build_rename(name, file.block, file.description)
            raise
        return len(moved)

    def _rename_block(self, file: MemoryFile, path: str) -> Steps[str | None]:
        """Rename a file's block; return the new name, or None if the file is gone."""
        # The description of a long path is the path itself.
        kept = "" if file.description == file.path else file.description
        described = path if "@@" in build_block_name(path) else kept
        generation = 1
        while True:
            name = build_block_name(path, generation)
            try:
                yield self._build_rename(file.block, name, described)
            except (NotFound, Gone) as refusal:
                if refusal.code not in ("page_unknown", "page_erased"):
                    raise
                if not (yield from self._is_deleted(path, generation)):
                    return None
                generation = yield from self._find_generation(path, generation)
            else:
                return name

    def _build_rename(self, block: str, name: str, description: str) -> Request[Any]:
        request: Request[Any] = self.routes.rename(
            self.owner, block, name, by="model", description=description
        )
        return request

    def _build_put(
        self, name: str, text: str, *, version: int, description: str = ""
    ) -> Request[Any]:
        size = len(text.encode())
        if size > MAX_BYTES:
            raise FileRefusal(
                f"The file would have {size} bytes. A file holds {MAX_BYTES} bytes."
            )
        fields: dict[str, Any] = {"description": description} if description else {}
        request: Request[Any] = self.routes.put(
            self.owner, name, text, by="model", if_match=version, **fields
        )
        return request


def require_writable(file: MemoryFile) -> None:
    if file.read_only:
        raise FileRefusal(f"The file {ROOT}/{file.path} is read-only.")

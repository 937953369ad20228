"""A connection between client and hub that drops when a test says so."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

#: Seconds that a client may take to reconnect.
PATIENCE = 30


@dataclass(slots=True)
class Line:
    """A port that forwards to another: requests arrive; answers can be lost."""

    target: int
    listener: socket.socket
    #: Number of answers to cut off before their first byte.
    lose: int = 0
    #: Number of answer bytes after which a connection drops, even within an event.
    carries: int = sys.maxsize
    opened: int = 0
    #: Bytes of answers that came to the client.
    carried: int = 0
    _lines: list[socket.socket] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def cut_lines(self) -> None:
        """Drop all open connections; accept new ones."""
        while self._lines:
            end(self._lines.pop())

    def await_opened(self, count: int) -> None:
        """Wait until so many connections have been opened in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.opened >= count, PATIENCE)

    def await_answer(self) -> None:
        """Wait until a part of an answer has come to the client."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.carried, PATIENCE)

    def serve(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            self._lines += [near, far]
            with self._changed:
                self.opened += 1
                self._changed.notify_all()
            for pump in (self.forth, self.carry_back):
                threading.Thread(target=pump, args=(near, far), daemon=True).start()

    def forth(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while sent := near.recv(65_536):
                far.sendall(sent)
        end(far)

    def carry_back(self, near: socket.socket, far: socket.socket) -> None:
        left = self.carries
        with suppress(OSError):
            while left and (received := far.recv(min(left, 65_536))):
                if self.lose:
                    self.lose -= 1
                    break
                near.sendall(received)
                left -= len(received)
                with self._changed:
                    self.carried += len(received)
                    self._changed.notify_all()
        end(near)


def end(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()


@contextmanager
def dropping(target: int) -> Iterator[Line]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        line = Line(target, listener)
        serving = threading.Thread(target=line.serve)
        serving.start()
        try:
            yield line
        finally:
            end(listener)
            line.cut_lines()
            serving.join()

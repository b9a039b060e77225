"""A conversation with a program on a host: what it prints comes line by line while it is sent more, within bounds of time and size."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, Self

from provision.errors import HostUnreachableError, ProbeFailedError
from provision.host.ssh import Target, refusal, ssh_argv

_SSH_FAILED: Final = 255  # ssh(1)
_MOST_LINE: Final = 4 << 20
_MOST_ERRORS: Final = 256 << 10
_CHUNK: Final = 1 << 16
_POLL_S: Final = 0.25


class Talk:
    """One connection with one command; the command there ends when it wants to, the connection with this object.

    Args:
        target: the host.
        command: a POSIX shell command line.
        silence_s: after so long without a line the connection counts as lost.
        most_bytes: of all lines together.
    """

    def __init__(self, target: Target, command: str, *, silence_s: float, most_bytes: int) -> None:
        self._target, self._silence_s, self._most = target, silence_s, most_bytes
        argv = ["/bin/sh", "-c", command] if target.is_local else [*ssh_argv(target), command]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        self._waiting = deque[memoryview]()
        self.errors = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def send(self, data: bytes) -> None:
        """Have these bytes sent while the lines are read. They are not copied: many hosts are sent the same megabytes at the same time."""
        if data:
            self._waiting.append(memoryview(data))

    def lines(self) -> Iterator[bytes]:
        """The lines, without their ends; an empty one at least four times a second, so that the caller can look around.

        Raises:
            HostUnreachableError: nothing came for too long.
            ProbeFailedError: more came than can be meant.
        """
        process, held, heard, received = self._process, b"", time.monotonic(), 0
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: S101, PT018
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            waiting.register(process.stderr, selectors.EVENT_READ)
            while waiting.get_map():
                ready = self._select(waiting)
                for pipe in (process.stdout, process.stderr):
                    if pipe not in ready:
                        continue
                    part = os.read(pipe.fileno(), _CHUNK)
                    if not part:
                        waiting.unregister(pipe)
                    elif pipe is process.stderr:
                        self.errors += part[: max(0, _MOST_ERRORS - len(self.errors))]
                    else:
                        heard, received = time.monotonic(), received + len(part)
                        *lines, held = (held + part).split(b"\n")
                        yield from lines
                if len(held) > _MOST_LINE or received > self._most:
                    msg = f"{self._target.name} sends more than a run can tell"
                    raise ProbeFailedError(msg, hint="another program writes into the session: see what the login's start-up files print")
                if time.monotonic() - heard > self._silence_s:
                    msg = f"{self._target.name} sent nothing for {self._silence_s:.0f} s"
                    raise HostUnreachableError(msg, hint="see whether it is up and not overloaded")
                yield b""

    def _select(self, waiting: selectors.BaseSelector) -> set[Any]:
        """The pipes that can be read now; what is to be sent is sent meanwhile, as far as the host takes it."""
        stdin = self._process.stdin
        if self._waiting and stdin is not None and stdin not in waiting.get_map():
            waiting.register(stdin, selectors.EVENT_WRITE)
        ready = {key.fileobj for key, _ in waiting.select(_POLL_S)}
        if stdin in ready and stdin is not None:
            try:
                self._waiting[0] = self._waiting[0][os.write(stdin.fileno(), self._waiting[0][:_CHUNK]) :]
                if not self._waiting[0]:
                    self._waiting.popleft()
            except BrokenPipeError:  # it has ended, and says why
                self._waiting.clear()
            if not self._waiting:
                waiting.unregister(stdin)
        return ready

    def end(self) -> tuple[int, str]:
        """The exit code and what was printed as errors, once the lines have ended.

        Raises:
            HostUnreachableError, HostKeyUnknownError, HostKeyChangedError, SshRefusedError: OpenSSH failed.
        """
        code, said = self._process.wait(), self.errors.decode(errors="replace")
        if code == _SSH_FAILED and not self._target.is_local:
            raise refusal(self._target, said)
        return code, said

"""Run one command on a host through the system's OpenSSH, so that agents, jump hosts and hardware keys work.

This module never accepts a new host key: an unknown or changed one stops the run. Only `refusal` interprets OpenSSH's messages.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterable
from pathlib import Path

from provision.errors import GpuprovError, HostKeyChangedError, HostKeyUnknownError, HostUnreachableError, SshRefusedError
from provision.structs import Struct

_SSH_FAILED = 255  # ssh(1): "255 if an error occurred" before or instead of the remote command
_CHUNK_BYTES = 65_536
_STOP_S = 5.0  # for a command to end by itself when it is stopped; a busy machine may take a second for it


class Target(Struct):
    """A host as the user calls it and as ssh finds it.

    Attributes:
        name: what reports call it.
        destination: what `ssh` is given: an alias of our config, `user@host`, or empty for this machine itself.
        config: a file for `ssh -F`; the user's own configuration when None.
        arguments: what ssh is told beside that.
        refused: why ssh is not run at all.
        meant: the instances of gpuprov whose names are near to this one, as a question; empty where there is none.
    """

    name: str
    destination: str
    config: Path | None = None
    arguments: tuple[str, ...] = ()
    refused: GpuprovError | None = None
    meant: str = ""

    @property
    def is_local(self) -> bool:
        """Whether commands run here, without ssh."""
        return not self.destination


LOCALHOST = Target(name="localhost", destination="")


class Completed(Struct):
    """The result of a command on a host; `truncated` when its output passed the limit and the rest was not read."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False


def ssh_argv(target: Target, *, connect_timeout_s: int = 10) -> list[str]:
    """The ssh command line up to and including the destination; a remote command may follow it."""
    if target.refused:
        raise target.refused
    config = ["-F", str(target.config)] if target.config else []
    options = [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        f"ConnectTimeout={connect_timeout_s}",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "LogLevel=ERROR",
    ]
    return ["ssh", *config, *[part for option in options for part in ("-o", option)], *target.arguments, "-T", "--", target.destination]


async def execute(
    target: Target,
    command: str,
    *,
    stdin: bytes | AsyncIterable[bytes] = b"",
    timeout_s: float,
    connect_timeout_s: int = 10,
    max_output_bytes: int = 16 * 1024 * 1024,
    output: bytearray | None = None,
) -> Completed:
    """Run a shell command on the host and return what it printed.

    Args:
        target: where.
        command: a POSIX shell command line; quoting values is the caller's duty (`shlex.quote`).
        stdin: bytes for the command's standard input; an iterator where some are not yet known when the connection is opened.
        timeout_s: for everything, the connection included.
        connect_timeout_s: for the TCP connection and the handshake.
        max_output_bytes: per stream; the command is ended when it prints more.
        output: receives standard output as it arrives, so that it is there even where an error is raised.

    Raises:
        HostUnreachableError, HostKeyUnknownError, HostKeyChangedError, SshRefusedError: the command was not run, or not in time.
    """
    argv = ["/bin/sh", "-c", command] if target.is_local else [*ssh_argv(target, connect_timeout_s=connect_timeout_s), command]
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # ended as a group: a child that outlives its shell would hold the pipes open
    )
    try:
        async with asyncio.timeout(timeout_s):
            result = await _communicate(process, stdin, max_output_bytes, bytearray() if output is None else output)
    except TimeoutError:
        msg = f"{target.name} did not finish within {timeout_s:g} s"
        raise HostUnreachableError(msg, hint="see whether it is up and not overloaded, or give a longer --timeout") from None
    finally:
        if process.returncode is None:
            await _stop(process)
        # A child that left the session may hold the pipes open for ever, and a wait lasts until they are closed; asyncio has no public way
        # to let go of them.
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
        await process.wait()
    if result.exit_code == _SSH_FAILED and not target.is_local:
        raise refusal(target, result.stderr.decode(errors="replace"))
    return result


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Let a command end what it started in other sessions, then kill it.

    Its input ends, too: Python does not see a signal that comes just before a read, and would then wait for input that never comes.
    """
    assert process.stdin is not None  # noqa: S101
    try:
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            process.terminate()
            if not process.stdin.is_closing():
                process.stdin.transport.abort()
            async with asyncio.timeout(_STOP_S):
                await process.wait()
    finally:
        _end(process)


def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a command with whatever it started here."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _communicate(
    process: asyncio.subprocess.Process, stdin: bytes | AsyncIterable[bytes], limit: int, output: bytearray
) -> Completed:
    """Feed and drain the three streams at once, ending the process when it prints more than `limit` bytes."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: S101, PT018
    truncated = False

    async def feed(stream: asyncio.StreamWriter) -> None:
        # A command that does not read its input is not a failure of ours.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if isinstance(stdin, bytes):
                stream.write(stdin)
            else:
                async for part in stdin:
                    stream.write(part)
                    await stream.drain()
            await stream.drain()
        stream.close()

    async def drain(stream: asyncio.StreamReader, received: bytearray) -> bytes:
        nonlocal truncated
        while chunk := await stream.read(_CHUNK_BYTES):
            received += chunk
            if len(received) > limit:
                truncated = True
                _end(process)
                break
        return bytes(received[:limit])

    _, out, err = await asyncio.gather(feed(process.stdin), drain(process.stdout, output), drain(process.stderr, bytearray()))
    return Completed(await process.wait(), out, err, truncated)


def refusal(target: Target, stderr: str) -> GpuprovError:
    """The error for OpenSSH's message; one that is not recognised counts as unreachable, with the message as detail."""
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    if not last:  # ssh always says why it cannot connect; a command killed on the host ends with the same code, and silently
        return HostUnreachableError(
            f"{target.name} ended the session and gave no reason",
            hint="the command was killed or ended with code 255: look for an out-of-memory kill in the host's kernel log, and try again",
        )
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in stderr:
        return HostKeyChangedError(
            f"{target.name} shows a host key that differs from the known one",
            hint="somebody else may be answering on this address; compare with the cloud's console output before you trust it",
            detail=stderr,
        )
    if "Host key verification failed" in stderr or "No ED25519 host key is known" in stderr:
        return HostKeyUnknownError(
            f"the host key of {target.name} is not known",
            hint="add the host's key from a trusted source to known_hosts (for gpuprov's own instances `gpuprov up` does it)",
            detail=stderr,
        )
    if "Permission denied" in stderr:
        return SshRefusedError(
            f"{target.name} does not accept the key: {last}",
            hint="use the key that the machine was created with, or have yours added to the profile's users",
            detail=stderr,
        )
    return HostUnreachableError(
        "; ".join(filter(None, (f"{target.name} cannot be reached: {last}", target.meant))),
        hint="see whether it is running (`gpuprov ls`) and whether port 22 is open to you",
        detail=stderr,
    )

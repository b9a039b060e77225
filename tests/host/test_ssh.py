"""Running commands: bounded in time and output, and OpenSSH's own refusals told apart. Local here; over SSH in tests/test_story.py."""

import asyncio
import shlex
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provision.errors import HostKeyUnknownError, HostUnreachableError
from provision.host.ssh import LOCALHOST, Target, execute, ssh_argv
from tests.waiting import until


def test_input_goes_in_and_both_outputs_and_the_exit_code_come_out() -> None:
    result = asyncio.run(execute(LOCALHOST, "cat; echo oops >&2; exit 3", stdin=b"hello", timeout_s=240))
    assert (result.exit_code, result.stdout, result.stderr, result.truncated) == (3, b"hello", b"oops\n", False)


def test_a_command_that_does_not_read_a_large_input_is_no_failure() -> None:
    result = asyncio.run(execute(LOCALHOST, "exit 0", stdin=b"x" * 5_000_000, timeout_s=240))
    assert result.exit_code == 0


def test_output_without_end_is_cut_at_the_limit() -> None:
    result = asyncio.run(execute(LOCALHOST, "exec yes", timeout_s=240, max_output_bytes=100_000))
    assert result.truncated
    assert len(result.stdout) == 100_000


def test_a_command_that_hangs_is_ended_in_time() -> None:
    with pytest.raises(HostUnreachableError, match=r"within 0\.3 s"):
        asyncio.run(execute(LOCALHOST, "exec sleep 60", timeout_s=0.3))


def test_a_command_that_did_not_see_its_signal_ends_with_its_input(tmp_path: Path) -> None:
    """It can clean up. Here it ignores the signal; a python3 that is just about to read does not see it either."""
    said = bytearray()

    async def endless() -> AsyncIterator[bytes]:
        yield b"begin\n"
        await asyncio.Event().wait()

    async def until_cancelled() -> None:
        command = f"trap '' TERM; cat; touch {shlex.quote(str(tmp_path / 'cleaned'))}"
        running = asyncio.create_task(execute(LOCALHOST, command, stdin=endless(), timeout_s=240, output=said))
        await asyncio.to_thread(until, lambda: b"begin" in said)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(until_cancelled())
    assert (tmp_path / "cleaned").exists()


def test_a_port_where_nothing_listens_is_unreachable(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "config"
    config.write_text(f"Host x\n  HostName 127.0.0.1\n  Port {port}\n")
    with pytest.raises(HostUnreachableError, match="Connection refused") as caught:
        asyncio.run(execute(Target("x", "x", config), "true", timeout_s=240))
    assert caught.value.exit_code == 3


def test_a_host_that_accepts_and_never_answers_is_unreachable_within_the_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        config = tmp_path / "config"
        config.write_text(f"Host x\n  HostName 127.0.0.1\n  Port {mute.getsockname()[1]}\n")
        with pytest.raises(HostUnreachableError):
            asyncio.run(execute(Target("x", "x", config), "true", timeout_s=5, connect_timeout_s=1))


@pytest.mark.parametrize("name", ["-oProxyCommand=touch evil", "$(touch evil)", "no such host"])
def test_a_host_argument_is_never_an_option_or_a_command(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((HostUnreachableError, HostKeyUnknownError)):
        asyncio.run(execute(Target(name, name), "true", timeout_s=240))
    assert not (tmp_path / "evil").exists()


def test_no_command_accepts_a_host_key_that_is_not_pinned() -> None:
    """`accept-new` would trust whoever answers first; an option on the command line comes before any configuration."""
    for target in (Target("x", "x"), Target("x", "x", Path("/c"))):
        argv = ssh_argv(target)
        options = [argv[i + 1] for i, word in enumerate(argv) if word == "-o"]
        assert [o for o in options if o.lower().startswith("stricthostkeychecking")] == ["StrictHostKeyChecking=yes"]
        assert "BatchMode=yes" in options
        assert not [o for o in options if "KnownHosts" in o or "NoHostAuthentication" in o]
        assert argv[-2:] == ["--", "x"]

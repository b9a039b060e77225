"""A conversation with a program: what is sent arrives whole and in its order, and is not held twice."""

from __future__ import annotations

import hashlib
import os
import tracemalloc

import pytest

from provision.errors import ProbeFailedError
from provision.host.ssh import LOCALHOST
from provision.host.talk import Talk


def test_what_is_sent_arrives_whole_and_in_its_order() -> None:
    parts = [os.urandom(size) for size in (0, 1, 300_000, 5, 70_000)]
    whole = b"".join(parts)
    with Talk(LOCALHOST, f"head -c {len(whole)} | sha256sum; read line; echo $line", silence_s=60, most_bytes=1000) as talk:
        for part in parts:
            talk.send(part)
        said: list[bytes] = []
        for line in talk.lines():
            if line and not said:
                talk.send(b"later\n")
            said += [line] if line else []
        assert talk.end() == (0, "")
    assert said == [f"{hashlib.sha256(whole).hexdigest()}  -".encode(), b"later"]


def test_what_many_hosts_are_sent_is_held_once() -> None:
    layer = os.urandom(8 << 20)
    tracemalloc.start()
    try:
        with Talk(LOCALHOST, "cat > /dev/null; echo all", silence_s=60, most_bytes=1000) as talk:
            for _ in range(3):
                talk.send(layer)
            for number, _line in enumerate(talk.lines()):
                if number == 20:
                    break
            assert tracemalloc.get_traced_memory()[1] < len(layer) / 2
    finally:
        tracemalloc.stop()


def test_a_program_that_does_not_read_what_it_is_sent_says_how_it_ended() -> None:
    with Talk(LOCALHOST, "echo no >&2; exit 3", silence_s=60, most_bytes=1000) as talk:
        talk.send(bytes(1 << 20))
        assert [line for line in talk.lines() if line] == []
        assert talk.end() == (3, "no\n")


def test_a_program_that_says_too_much_is_left() -> None:
    with Talk(LOCALHOST, "yes", silence_s=60, most_bytes=1000) as talk, pytest.raises(ProbeFailedError, match="more than a run can tell"):
        list(talk.lines())

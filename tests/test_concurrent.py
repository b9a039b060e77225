"""Work on several things at the same time: the order of results, errors, and that nothing runs on."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from provision.concurrent import at_once, each_to_its_end, run_until


def test_results_come_in_the_order_of_the_items_and_the_work_overlaps() -> None:
    together = threading.Barrier(3, timeout=240)

    def work(number: int) -> int:
        together.wait()  # ends only when all three are at work
        return number * 10

    assert at_once(work, [3, 1, 2]) == [30, 10, 20]


def test_no_more_threads_than_allowed() -> None:
    running: set[int] = set()
    at_once(lambda _: running.add(threading.get_ident()), range(20), most=2)
    assert len(running) <= 2


def test_an_error_is_raised_when_all_work_has_ended() -> None:
    ended = []

    def work(number: int) -> None:
        if number == 0:
            raise ValueError(number)
        ended.append(number)

    with pytest.raises(ValueError, match="0"):
        at_once(work, range(5), most=1)
    assert ended == [1, 2, 3, 4]


def test_nothing_to_do_is_no_work() -> None:
    assert at_once(lambda item: item, []) == []


def test_what_fails_leaves_the_others_to_their_ends() -> None:
    error = ValueError("x")

    def work(number: int) -> int:
        if number == 0:
            raise error
        return number

    assert each_to_its_end(work, [1, 0, 2], threading.Event()) == [1, error, 2]


def test_a_ctrl_c_is_raised_when_all_work_has_heard_of_it() -> None:
    stop, heard, together = threading.Event(), list[int](), threading.Barrier(3, timeout=240)

    def work(number: int) -> None:
        together.wait()
        if number == 0:
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(240)
        heard.append(number)

    with pytest.raises(KeyboardInterrupt):
        each_to_its_end(work, range(3), stop)
    assert sorted(heard) == [0, 1, 2]


def test_a_ctrl_c_that_reaches_another_thread_is_not_lost() -> None:
    """The kernel chooses the thread that gets a signal of the process, and Python raises it in the main thread, once that runs."""
    stop, heard = threading.Event(), list[int]()

    def work(number: int) -> None:
        if number == 0:
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        assert stop.wait(240)
        heard.append(number)

    with pytest.raises(KeyboardInterrupt):
        each_to_its_end(work, range(3), stop)
    assert sorted(heard) == [0, 1, 2]


def test_a_coroutine_is_cancelled_when_it_is_to_stop() -> None:
    stop, ended = threading.Event(), list[str]()

    async def waits() -> None:
        stop.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("yes")

    async def answers() -> int:
        return 7

    with pytest.raises(KeyboardInterrupt):
        run_until(waits(), stop)
    assert ended == ["yes"]
    assert run_until(answers(), None) == 7


# A Ctrl-C that comes while asyncio still connects the pipes of a process it has started.
INTERRUPTED_AT_A_START = """
import asyncio, os, signal
from asyncio.base_subprocess import BaseSubprocessTransport as Transport
from provision.concurrent import run_until

connect = Transport._connect_pipes

async def slowly(self, waiter):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(0.1)
    await connect(self, waiter)

Transport._connect_pipes = slowly

async def starts():
    process = await asyncio.create_subprocess_exec("sleep", "3600", stdout=asyncio.subprocess.PIPE)
    await process.wait()

try:
    run_until(starts(), None)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_ctrl_c_while_a_process_starts_ends_the_work() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_AT_A_START], capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr

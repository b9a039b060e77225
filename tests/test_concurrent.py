"""Work on several things at the same time: the order of results, errors, and that nothing runs on."""

import threading

import pytest

from provision.concurrent import at_once


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

"""The lines of many hosts on one screen."""

from __future__ import annotations

from rich.cells import cell_len

from provision.cli.live import fitted, table_of


def lines(states: dict[str, str], *, width: int = 60, height: int = 10) -> list[str]:
    return table_of(states, 12.34, width=width, height=height).plain.splitlines()


def test_each_host_has_a_line_in_its_order_and_the_time_is_last() -> None:
    assert lines({"m-1": "done", "m-10": "storage: Mount"}) == ["m-1  done", "m-10 storage: Mount", "     12.3 s"]


def test_a_screen_with_fewer_lines_than_hosts_shows_those_that_are_at_work_and_counts_the_others() -> None:
    states = {f"m-{number}": "done" if number % 2 else "at work" for number in range(1, 13)} | {"m-3": "error[instance-lost]: gone"}
    at_work = [f"m-{number:<2} at work" for number in (4, 6, 8, 10, 12)]
    assert lines(states) == ["m-2  at work", "m-3  error[instance-lost]: gone", *at_work, "m-1  done", "     12.3 s, 4 done"]
    assert lines(states, height=4)[-1] == "     12.3 s, 5 more, 5 done"
    assert len(lines(states, height=1)) == 2


def test_no_line_is_wider_than_the_screen_or_two_lines() -> None:
    shown = lines({"m-1": "error[x]: " + "long " * 40 + "\nand more", "m-2": "鹿" * 60}, width=30)
    assert len(shown) == 3
    assert all(cell_len(line) <= 30 for line in shown)
    assert shown[0].endswith("…")


def test_a_report_of_no_host_is_the_time() -> None:
    assert lines({}) == [" 12.3 s"]


def test_what_a_host_says_is_shown_and_not_obeyed() -> None:
    hostile = "lost \x1b]52;c;cm0K\x07 \x9b2J \u202e"
    shown = r"lost \u001b]52;c;cm0K\u0007 \u009b2J \u202e"
    assert lines({"m-1": hostile}, width=100)[0] == f"m-1 {shown}"
    assert shown in fitted(1.0, None, hostile, "", "", width=100)

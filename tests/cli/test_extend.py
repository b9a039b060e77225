"""`gpuprov extend`."""

from __future__ import annotations

import datetime as dt

import pytest

from provision.workflow import power
from tests.cli.conftest import Call, launch, rows


@pytest.mark.usefixtures("cloud")
def test_a_deadline_is_moved_within_what_the_profile_allows(call: Call) -> None:
    launch(call)
    before = rows(call)[0]["deadline"]
    code, _, err = call("extend", "x", "3h")
    assert (code, "12 h ahead at most" in err) == (2, True), err
    assert rows(call)[0]["deadline"] == before
    code, _, err = call("extend", "x", "0h")
    assert code == 2
    assert before == rows(call)[0]["deadline"], err


@pytest.mark.usefixtures("cloud")
def test_a_number_without_a_unit_is_no_time_and_days_and_the_most_are(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_move_timer", lambda *_: None)  # there is no host
    launch(call)
    before = rows(call)[0]["deadline"]
    for words in (["extend", "x", "6"], ["fleet", "extend", "x", "6"]):
        code, _, err = call(*words)
        assert (code, "error[usage]: '6' has no unit" in err, "6h" in err) == (2, True, True), err
    code, _, err = call("extend", "x", "1d")
    assert (code, "12 h ahead at most" in err) == (2, True), err
    assert rows(call)[0]["deadline"] == before
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    for _ in range(2):
        code, _, err = call("extend", "x", "max")
        assert code == 0, err
        ends = dt.datetime.fromisoformat(rows(call)[0]["deadline"])
        assert now + dt.timedelta(hours=12) <= ends <= dt.datetime.now(dt.UTC) + dt.timedelta(hours=12)

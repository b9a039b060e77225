"""`gpuprov extend`."""

from __future__ import annotations

import pytest

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

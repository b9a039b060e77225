"""`gpuprov undo`, up to where it would connect; on a host: tests/converge."""

from __future__ import annotations

from tests.cli.conftest import Call


def test_an_unknown_role_is_refused_with_those_that_there_are(call: Call) -> None:
    code, out, err = call("undo", "nowhere", "--role", "bse")
    assert (code, out) == (2, "")
    assert "error[role-unknown]" in err
    assert "counters" in err.partition("hint: ")[2]

"""`gpuprov probe`, without a host."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Call


@pytest.mark.parametrize("words", [[], ["localhost", "--script"]])
def test_it_takes_a_host_or_the_script_and_not_both(call: Call, words: list[str]) -> None:
    code, out, err = call("probe", *words)
    assert (code, out) == (2, "")
    assert "either a HOST to observe, or --script" in err


def test_the_script_is_python_that_can_be_read(call: Call) -> None:
    code, out, _ = call("probe", "--script")
    assert code == 0
    compile(out, "probe", "exec")

"""`gpuprov completion`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Call


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_back_into_gpuprov(call: Call, shell: str) -> None:
    code, out, _ = call("completion", shell)
    assert code == 0
    assert "_GPUPROV_COMPLETE" in out

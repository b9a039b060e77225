"""Rules for faults: which calls they meet, and which rules are refused."""

from typing import Any

import pytest

from provision.errors import RehearsalFailedError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import put


@pytest.mark.parametrize("rule", [{"kind": "explode"}, {"kind": "error", "action": "("}, {"kind": "error", "colour": "red"}, "drop"])
def test_a_rule_that_is_none_is_refused_and_none_is_taken(ec2: Rehearsal, rule: Any) -> None:
    put(ec2, kind="delay", action="Nothing")
    with pytest.raises(RehearsalFailedError):
        control.ask(ec2, "faults", method="PUT", body=[rule])
    assert [r["action"] for r in control.ask(ec2, "faults")] == ["Nothing"]

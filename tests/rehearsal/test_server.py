"""The rehearsal's own paths, beside those of the clouds."""

import pytest

from provision.errors import RehearsalFailedError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal


def test_settings_of_all_clouds_are_shown_together_and_changed_by_name(ec2: Rehearsal) -> None:
    changed = control.ask(ec2, "settings", method="PUT", body={"pending_s": 7.5, "gce_running_s": 8.5})
    assert (changed["pending_s"], changed["gce_running_s"]) == (7.5, 8.5)
    assert control.ask(ec2, "settings") == changed


@pytest.mark.parametrize(("path", "body"), [("settings", {"no_such_setting": 1}), ("settings", [1]), ("nothing", {})])
def test_what_does_not_exist_is_refused(ec2: Rehearsal, path: str, body: object) -> None:
    with pytest.raises(RehearsalFailedError, match=f"refuses this request for {path}"):
        control.ask(ec2, path, method="PUT", body=body)  # type: ignore[arg-type]  # that is the point


def test_the_log_is_emptied(ec2: Rehearsal) -> None:
    assert control.ask(ec2, "calls", method="DELETE") == []
    assert control.ask(ec2, "status")["instances"] == []

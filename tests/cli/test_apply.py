"""`gpuprov apply`, up to where it would connect."""

from __future__ import annotations

from tests.cli.conftest import Call


def test_a_host_without_a_profile_of_its_own_needs_one(call: Call) -> None:
    code, out, err = call("apply", "nowhere")
    assert (code, out) == (2, "")
    assert "error[instance-not-found]" in err
    assert "--profile" in err


def test_a_role_is_checked_before_anything_else(call: Call) -> None:
    code, _, err = call("apply", "nowhere", "--role", "base", "--role", "bse")
    assert (code, "error[role-unknown]: there is no role 'bse'" in err) == (2, True)


def test_each_of_several_hosts_needs_a_profile_before_any_is_touched(call: Call) -> None:
    code, out, err = call("apply", "localhost", "nowhere", "--without-gpu")
    assert (code, out) == (2, "")
    assert "error[instance-not-found]" in err


def test_without_a_host_it_is_wrong_usage(call: Call) -> None:
    code, _, err = call("apply")
    assert (code, "HOST" in err) == (2, True)

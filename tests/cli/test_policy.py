"""`gpuprov policy`."""

from __future__ import annotations

import json

from tests.cli.conftest import Call


def test_policy_check_without_rules_says_so(call: Call) -> None:
    code, _, err = call("policy", "check", "t4-train")
    assert (code, "error[policy-invalid]: there are no rules" in err) == (2, True)


def test_the_schema_of_rules_is_printed(call: Call) -> None:
    code, out, _ = call("policy", "schema")
    assert (code, "max_deadline_h" in json.loads(out)["properties"]) == (0, True)

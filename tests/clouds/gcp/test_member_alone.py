"""A member's own program against the embedded GCP without hosts, with the rights that its fleet's plan prints, or with fewer."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.clouds.gcp import fleet, fleet_requests
from provision.clouds.gcp.onhost import member as onhost
from tests.clouds.gcp.test_fleet import ACCOUNT, OTHER, PROGRAM, REGION, Made, made, silent
from tests.here import urllib_from

__all__ = ["made"]

member: Any = onhost  # it runs as it is, without annotations
VIEWER, CREATOR = "roles/storage.objectViewer", "roles/storage.objectCreator"


class Member:
    """One instance of the group, and the program on it."""

    def __init__(self, made: Made, folder: Path, patch: pytest.MonkeyPatch, *lacks: str, program: bytes = PROGRAM) -> None:
        made.order = made.other(program)
        policy = fleet.plan(made.order, REGION).member
        left = [binding for binding in policy["bindings"] if binding["role"] not in lacks]
        made.set(gce_account_policies={ACCOUNT: {"bindings": left}})
        made.fleet.ensure(made.order, 1, program, on_step=silent)
        address = made.machine(made.serving(1)[0]).address
        document = yaml.safe_load(fleet_requests.user_data(made.order, made.access.machine_endpoint_url))
        self.config = json.loads(document["write_files"][0]["content"])
        patch.setattr(member, "urllib", urllib_from(address))
        patch.setattr(member, "STATE", str(folder))
        boots = itertools.count()
        patch.setattr(member, "boot_id", lambda: f"boot-{next(boots)}")

    def boot(self) -> tuple[bool, bool]:
        """Whether it serves, and whether it powers itself off to be made anew."""
        serves, again = member.first(self.config)
        return serves, again


def test_a_member_serves_with_the_rights_that_its_plan_prints(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To it no failure slot is there or not: it may not list the bucket."""
    assert Member(made, tmp_path, monkeypatch).boot() == (True, False)
    assert [each.content["exit_code"] for each in made.fleet.evidence(made.order)] == [0]


@pytest.mark.parametrize("lacks", [(), (VIEWER,)], ids=["counts", "reads nothing"])
def test_a_member_that_fails_goes_until_all_slots_are_taken(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: tuple[str, ...]
) -> None:
    one = Member(made, tmp_path, monkeypatch, *lacks, program=OTHER)
    boots = [one.boot() for _ in range(made.order.breaker + 1)]
    assert boots == [(False, True)] * (made.order.breaker - 1) + [(False, False)] * 2
    assert made.view().halted


def test_a_member_whose_store_refuses_it_stays(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be counted, so nothing may end: the program catches this, stays and does not serve."""
    with pytest.raises(member.StoreRefused, match="403"):
        Member(made, tmp_path, monkeypatch, VIEWER, CREATOR).boot()

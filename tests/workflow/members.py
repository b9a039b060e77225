"""Members of a fleet on the embedded AWS without hosts: each runs what its user data brings, from its own address, in this process."""

from __future__ import annotations

import base64
import json
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.clouds.aws.client import client
from provision.clouds.aws.onhost import member as onhost
from tests.here import urllib_from
from tests.waiting import until

member: Any = onhost  # it runs as it is, without annotations
REGION, BUCKET = "ap-east-1", "a-store"
BROKEN = "broken-gpu"


class Members:
    """The members of the group of fleet `ff`.

    Attributes:
        booted: by id, those that ran their program, in this order.
        broken: called for each machine before it boots; whether its GPU is broken. A program sees that as a file beside its folder.
    """

    def __init__(self, access: Any, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.access, self.folder, self.patch = access, folder, patch
        self.groups, self.ec2 = client("autoscaling", REGION, access), client("ec2", REGION, access)
        self.booted: list[str] = []
        self.console: list[str] = []
        self.broken: Callable[[str], bool] = lambda _: False

    def rows(self, state: str = "") -> dict[str, dict[str, Any]]:
        (group,) = self.groups.describe_auto_scaling_groups(AutoScalingGroupNames=["gpuprov-ff"])["AutoScalingGroups"]
        return {row["InstanceId"]: row for row in group["Instances"] if row["LifecycleState"].startswith(state)}

    def version_of(self, member_id: str) -> str:
        return str(self.rows()[member_id]["LaunchTemplate"]["Version"])

    def rolls(self) -> list[dict[str, Any]]:
        """The newest first."""
        return list(self.groups.describe_instance_refreshes(AutoScalingGroupName="gpuprov-ff")["InstanceRefreshes"])

    def protect(self, *ids: str) -> None:
        self.groups.set_instance_protection(AutoScalingGroupName="gpuprov-ff", InstanceIds=list(ids), ProtectedFromScaleIn=True)

    def boot(self, instance: str) -> None:
        """Run the program of a member that waits for its own word."""
        machine = self.ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
        sent = self.ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"]["Value"]
        document = yaml.safe_load(base64.b64decode(sent))
        folder = self.folder / instance
        folder.mkdir()
        (folder / "member.json").write_text(document["write_files"][0]["content"])
        self.booted.append(instance)
        if self.broken(instance):
            (folder / BROKEN).touch()
        address = machine["PublicIpAddress"]
        for name, value in {
            "CONFIG": str(folder / "member.json"),
            "STATE": str(folder / "state"),
            "say": self.console.append,
            "threading": types.SimpleNamespace(Event=threading.Event, Thread=threading.Thread),
            "urllib": urllib_from(address),
        }.items():
            self.patch.setattr(member, name, value)
        member.main()

    def live(self, done: Callable[[], Any]) -> Any:
        """Let each member boot that comes, until something holds."""

        def look() -> Any:
            for each in sorted(self.rows("Pending:Wait")):
                if each not in self.booted:
                    self.boot(each)
            return done()

        return until(look)

    def serving(self, count: int) -> set[str]:
        """The ids of the members, once so many serve and no other is there."""

        def found() -> set[str]:
            rows = self.rows()
            return set(rows) if len(rows) == count and all(row["LifecycleState"] == "InService" for row in rows.values()) else set()

        return set(self.live(found))

    def ended(self) -> dict[str, Any]:
        """The last roll, once it has ended."""
        ends = {"Successful", "Failed", "Cancelled", "RollbackFailed", "RollbackSuccessful"}
        return dict(self.live(lambda: roll if (roll := self.rolls()[0])["Status"] in ends else {}))

    def evidence(self) -> list[dict[str, Any]]:
        store = client("s3", REGION, self.access)
        pages = store.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="x/evidence/ff/")
        keys = [row["Key"] for page in pages for row in page.get("Contents", [])]
        return [json.loads(store.get_object(Bucket=BUCKET, Key=key)["Body"].read()) for key in keys]

    def failures(self) -> list[str]:
        store = client("s3", REGION, self.access)
        rows = store.list_objects_v2(Bucket=BUCKET, Prefix="x/failures/ff/").get("Contents", [])
        return [store.get_object(Bucket=BUCKET, Key=row["Key"])["Body"].read().decode() for row in rows]

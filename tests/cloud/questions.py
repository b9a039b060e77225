"""Six questions that no page of the clouds answers, asked of an account: each says what it costs, and what it made is removed.

@questions PROFILE NAME [--store URL] [--rehearse]

The machines are the smallest, and end by themselves within an hour, whatever happens here. What is made has the tags of gpuprov under
NAME-q, by which `gpuprov down` and `sweep` find it.
"""

import argparse
import contextlib
import datetime as dt
import inspect
import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

import botocore.exceptions as boto

from provision.clouds import base
from provision.clouds.aws import data, removal
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.errors import cloud_errors, unless_refused
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.client import NotGooglesError, session
from provision.clouds.gcp.requests import LABELS
from provision.errors import CloudError, GpuprovError
from provision.launch.fleet_orders import planned_fleet
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.workflow.session import Session
from tests.cloud import onmachine

WORD: Final = "@questions"
"""The word that `recorded` takes for this in the place of a command."""
_T = TypeVar("_T")
_LASTS: Final = dt.timedelta(hours=1)
_READY_S: Final = 600.0
_STAYS_S: Final = 600.0  # how long a member may stay in Pending:Wait before the answer is that it stays
_POLL_S: Final = 2.0
_MACHINE: Final = "t3.micro"
_SYSTEM: Final = ("ubuntu", "24.04")
_HOOK: Final = "gpuprov-question"
_SMALL: Final = {"aws": "one t3.micro for minutes: under 0.01 USD", "gcp": "one small machine for minutes: under 0.01 USD"}
QUESTIONS: Final = {
    1: ("gcp", "is cloud-init in Google's image of Debian 13?"),
    2: ("gcp", "what does an account with the bindings of `fleet plan` get for an object that is missing?"),
    3: ("gcp", "what does it get for the same upload twice under ifGenerationMatch=0?"),
    4: ("aws", "what is a second RollbackInstanceRefresh in a row answered?"),
    5: ("aws", "can a group be made in an account that has never had one?"),
    6: ("aws", "does a member in Pending:Wait end when the size goes to 0?"),
}


@dataclass(frozen=True)
class Learnt:
    """The answer to one question; `known` is whether it was asked and answered."""

    number: int
    answer: str
    known: bool = True

    def __str__(self) -> str:
        cloud, question = QUESTIONS[self.number]
        return f"{self.number}. {question} {self.answer} ({_SMALL[cloud]})"


def until(look: Callable[[], _T], longest_s: float) -> _T:
    """What a look finds as soon as it finds something, or at the end of the time."""
    end = time.monotonic() + longest_s
    while not (found := look()) and time.monotonic() < end:
        time.sleep(min(_POLL_S, longest_s / 20))
    return found


def _tags(name: str, run: str) -> dict[str, str]:
    ends = (dt.datetime.now(dt.UTC) + _LASTS).isoformat(timespec="seconds")
    ours = {base.NAME_TAG: name, base.LAUNCH_TAG: secrets.token_hex(8), base.DEADLINE_TAG: ends, base.OWNER_TAG: "cloud-test"}
    return {**ours, "cloud-test": run}


def _answered(number: int, ask: Callable[[], str]) -> Learnt:
    try:
        return Learnt(number, ask())
    except GpuprovError as error:
        return Learnt(number, f"not known: {error.message}", known=False)


# --- AWS --------------------------------------------------------------------------------------------------------------


class SmallGroup:
    """An Auto Scaling group of the smallest machine, with the hook of a fleet and a deadline of its own."""

    def __init__(self, api: AwsRegionApi, name: str, run: str) -> None:
        self._api, self.name, self.group = api, name, f"gpuprov-{name}"
        self._tags = [{"Key": key, "Value": value} for key, value in _tags(name, run).items()]
        self.groups = api.client("autoscaling", retried=False)
        self._data: dict[str, Any] = {}
        self._template = ""

    def make(self) -> str:
        """Make it without members; what this says of the account is the answer to the fifth question."""
        with cloud_errors("iam:GetRole", self._api.region):
            iam = self._api.client("iam")
            had = unless_refused(lambda: dict(iam.get_role(RoleName="AWSServiceRoleForAutoScaling")), "NoSuchEntity")
        image = data.image(_SYSTEM)
        with cloud_errors("ssm:GetParameter", self._api.region):
            found = self._api.client("ssm").get_parameter(Name=image.parameter if image else "")["Parameter"]["Value"]
        specification = [{"ResourceType": kind, "Tags": self._tags} for kind in ("instance", "volume")]
        self._data = {"ImageId": found, "InstanceType": _MACHINE, "TagSpecifications": specification}
        tagged = {"TagSpecifications": [{"ResourceType": "launch-template", "Tags": self._tags}]}
        with cloud_errors("ec2:CreateLaunchTemplate", self._api.region):
            made = self._api.ec2_once.create_launch_template(LaunchTemplateName=self.group, LaunchTemplateData=self._data, **tagged)
        self._template = made["LaunchTemplate"]["LaunchTemplateId"]
        with cloud_errors("ec2:DescribeSubnets", self._api.region):
            subnets = self._api.ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
        propagated = {"ResourceId": self.group, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True}
        hook = {"LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "DefaultResult": "ABANDON", "HeartbeatTimeout": 900}
        with cloud_errors("autoscaling:CreateAutoScalingGroup", self._api.region):
            self.groups.create_auto_scaling_group(
                AutoScalingGroupName=self.group,
                MinSize=0,
                MaxSize=0,
                DesiredCapacity=0,
                LaunchTemplate=self._version(1),
                VPCZoneIdentifier=",".join(row["SubnetId"] for row in subnets),
                LifecycleHookSpecificationList=[{"LifecycleHookName": _HOOK, **hook}],
                Tags=[{**tag, **propagated} for tag in self._tags],
            )
        with cloud_errors("autoscaling:PutScheduledUpdateGroupAction", self._api.region):
            self.groups.put_scheduled_update_group_action(
                AutoScalingGroupName=self.group,
                ScheduledActionName="gpuprov-deadline",
                StartTime=dt.datetime.now(dt.UTC) + _LASTS,
                MinSize=0,
                MaxSize=0,
                DesiredCapacity=0,
            )
        return "yes, but the account had the role of Auto Scaling already: a fresh one may answer otherwise" if had else "yes"

    def _version(self, number: int) -> dict[str, str]:
        return {"LaunchTemplateId": self._template, "Version": str(number)}

    def members(self) -> dict[str, str]:
        """Id → state."""
        with cloud_errors("autoscaling:DescribeAutoScalingGroups", self._api.region):
            rows = self.groups.describe_auto_scaling_groups(AutoScalingGroupNames=[self.group])["AutoScalingGroups"]
        return {row["InstanceId"]: row["LifecycleState"] for each in rows for row in each["Instances"]}

    def size(self, size: int) -> None:
        with cloud_errors("autoscaling:UpdateAutoScalingGroup", self._api.region):
            self.groups.update_auto_scaling_group(AutoScalingGroupName=self.group, MinSize=0, MaxSize=size, DesiredCapacity=size)

    def waiting(self) -> str:
        """The one member, once it waits for its hook."""
        self.size(1)
        found = until(lambda: [each for each, state in self.members().items() if state == "Pending:Wait"], _READY_S)
        if not found:
            msg = f"no member came to Pending:Wait in {_READY_S:.0f} s"
            raise CloudError(msg, hint="look at the activities of the group")
        return found[0]

    def ends_while_it_waits(self, stays_s: float = _STAYS_S) -> str:
        """The answer to the sixth question."""
        self.waiting()
        self.size(0)
        until(lambda: not self.members(), stays_s)
        left = sorted(set(self.members().values()))
        return f"no: after {stays_s:.0f} s it is {', '.join(left)}" if left else f"yes, within {stays_s:.0f} s"

    def second_rollback(self) -> str:
        """The answer to the fourth question."""
        action = {"AutoScalingGroupName": self.group, "LifecycleHookName": _HOOK, "InstanceId": self.waiting()}
        with cloud_errors("autoscaling:CompleteLifecycleAction", self._api.region):
            self.groups.complete_lifecycle_action(**action, LifecycleActionResult="CONTINUE")
        until(lambda: "InService" in self.members().values(), _READY_S)
        with cloud_errors("ec2:CreateLaunchTemplateVersion", self._api.region):
            self._api.ec2_once.create_launch_template_version(LaunchTemplateId=self._template, LaunchTemplateData=self._data)
        wanted = {"DesiredConfiguration": {"LaunchTemplate": self._version(2)}, "Preferences": {"MinHealthyPercentage": 0}}
        with cloud_errors("autoscaling:StartInstanceRefresh", self._api.region):
            self.groups.start_instance_refresh(AutoScalingGroupName=self.group, **wanted)
        with cloud_errors("autoscaling:RollbackInstanceRefresh", self._api.region):
            self.groups.rollback_instance_refresh(AutoScalingGroupName=self.group)
        try:
            self.groups.rollback_instance_refresh(AutoScalingGroupName=self.group)
        except boto.ClientError as error:
            return str(error.response["Error"]["Code"])
        return "it is accepted again"

    def remove(self) -> None:
        """Everything that has the name's tag, the group and its members first."""
        until(lambda: not removal.remove(self._api, removal.things(self._api, self.name), on_step=lambda _: None), _READY_S)


def ask_aws(api: AwsRegionApi, name: str, run: str, stays_s: float = _STAYS_S) -> Iterator[Learnt]:
    """The fifth question, which makes what the sixth and the fourth need."""
    group = SmallGroup(api, name, run)
    try:
        yield (made := _answered(5, group.make))
        if made.known:
            yield _answered(6, lambda: group.ends_while_it_waits(stays_s))
            yield _answered(4, group.second_rollback)
        else:
            yield from (Learnt(number, "not asked: there is no group", known=False) for number in (6, 4))
    finally:
        group.remove()


# --- GCP --------------------------------------------------------------------------------------------------------------


class Store(dict[str, str]):
    """The bucket of a fleet, and what the machine needs to ask it; empty where there is none."""


def store_of(api: GcpProjectApi, url: str, email: str, fleet: str, run: str) -> Store:
    """What the machine asks with the bindings that `gpuprov fleet plan` prints for a fleet of this name."""
    if not url or not email:
        return Store()
    bucket, _, prefix = url.removeprefix("gs://").partition("/")
    start = f"{prefix.rstrip('/')}/" if prefix else ""
    own = api.access.machine_endpoint_url
    where = {"metadata": own or "http://metadata.google.internal", "storage": own or "https://storage.googleapis.com"}
    written = f"{start}failures/{fleet}/question-{run}"
    return Store(bucket=bucket, missing=f"{start}bundles/question-{run}", written=written, email=email, **where)


def script(store: Store) -> str:
    """The start-up script of the machine."""
    return f"#!/usr/bin/env python3\n{inspect.getsource(onmachine)}\nmain({json.dumps(dict(store), sort_keys=True)})\n"


def machine(name: str, run: str, zone: str, kind: str, store: Store) -> dict[str, Any]:
    """The request for the machine, which Google deletes within an hour."""
    shown = (base.NAME_TAG, base.LAUNCH_TAG, "cloud-test")
    labels = {LABELS.get(key, key): value for key, value in _tags(name, run).items() if key in shown}
    account = [{"email": store["email"], "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}] if store else []
    image = "projects/debian-cloud/global/images/family/debian-13"
    return {
        "name": f"gpuprov-{name}",
        "machine_type": f"zones/{zone}/machineTypes/{kind}",
        "disks": [{"boot": True, "auto_delete": True, "initialize_params": {"source_image": image}}],
        "network_interfaces": [{"network": "global/networks/default", "access_configs": [{"type_": "ONE_TO_ONE_NAT"}]}],
        "service_accounts": account,
        "metadata": {"items": [{"key": "startup-script", "value": script(store)}]},
        "labels": labels,
        "scheduling": {"max_run_duration": {"seconds": int(_LASTS.total_seconds())}, "instance_termination_action": "DELETE"},
    }


def said(console: str) -> dict[int, str]:
    """Number of a question → what the machine printed."""
    lines = (line.partition(f"{onmachine.MARK} ")[2] for line in console.splitlines() if onmachine.MARK in line)
    pairs = (line.partition(": ") for line in lines)
    return {int(number): text.strip() for number, _, text in pairs if number.isdigit()}


def ask_gcp(
    api: GcpProjectApi, name: str, run: str, zone: str, store: Store, *, kind: str = "e2-small", console: Callable[[], str] | None = None
) -> Iterator[Learnt]:
    """Launch the machine, read what it prints, and remove it and what it wrote."""
    where = {"zone": zone, "instance": f"gpuprov-{name}"}

    def read() -> str:
        action = "compute.instances.getSerialPortOutput"
        return str(api.call("Instances", "get_serial_port_output", action, where=zone, **where).contents)

    def printed() -> dict[int, str]:
        return said((console or read)())

    try:
        request = machine(name, run, zone, kind, store)
        api.run(
            "Instances", "insert_unary", "compute.instances.create", timeout_s=_READY_S, where=zone, zone=zone, instance_resource=request
        )
        wanted = {1, 2, 3} if store else {1}
        until(lambda: wanted <= printed().keys(), _READY_S)
        found = printed()
        why = "not asked: name a bucket with STORE= and an account with `identity` in the profile's place"
        for number in (1, 2, 3):
            answer = found.get(number, "not known: the machine printed nothing" if number in wanted else why)
            yield Learnt(number, answer, known=number in found)
    except CloudError as error:
        yield from (Learnt(number, f"not known: {error.message}", known=False) for number in (1, 2, 3))
    finally:
        with contextlib.suppress(CloudError):
            api.run("Instances", "delete_unary", "compute.instances.delete", timeout_s=_READY_S, where=zone, **where)
        if store:
            _delete(api, store)


def _delete(api: GcpProjectApi, store: Store) -> None:
    """Take away what the machine wrote. An answer of success has no body, which Google's session takes for another's."""
    path = f"/storage/v1/b/{store['bucket']}/o/{store['written'].replace('/', '%2F')}"
    url = f"{api.access.endpoint_url or 'https://storage.googleapis.com'}{path}"
    with contextlib.suppress(NotGooglesError):
        reply = session(api.access).request("DELETE", url, timeout=api.access.timeout_s)  # type: ignore[no-untyped-call]  # google-auth is not typed
        if reply.status_code != HTTPStatus.NOT_FOUND:
            sys.stderr.write(f"gs://{store['bucket']}/{store['written']} may be left: HTTP {reply.status_code}\n")


# --- the command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str]) -> None:
    """Print what was learnt, as a list."""
    parser = argparse.ArgumentParser(prog=WORD)
    parser.add_argument("profile", type=Path)
    parser.add_argument("name")
    parser.add_argument("--store", default="")
    parser.add_argument("--rehearse", action="store_true")
    given = parser.parse_args(words)
    print(json.dumps([{**asdict(each), "text": str(each)} for each in _asked(given)]))


def _asked(given: argparse.Namespace) -> Iterator[Learnt]:
    profile, session_of = load.load(given.profile), Session.open()
    place: Any = profile.places[0]
    name = f"{given.name}-q"
    region = place.region_of(place.locations[0])
    accesses: dict[str, Any] = (
        session_of.accesses(start=True, say=print_nothing) if given.rehearse else {"aws": AwsAccess(), "gcp": GcpAccess()}
    )
    if place.cloud == "aws":
        yield from ask_aws(AwsRegionApi(region, accesses["aws"]), name, given.name)
    elif place.cloud == "gcp":
        api, account = GcpProjectApi(accesses["gcp"]), getattr(place.identity, "service_account", "")
        store = store_of(api, given.store, account, profile.name, given.name)
        if store and given.rehearse:  # the account as `fleet plan` says
            _grant(session_of, profile, given.store)
        kind = place.instance_type if given.rehearse else "e2-small"
        yield from ask_gcp(api, name, given.name, place.locations[0], store, kind=kind)


def print_nothing(_step: str) -> None:
    """What a start of the embedded clouds says is of no interest."""


def _grant(session_of: Session, profile: Profile, store: str) -> None:
    running = control.running(session_of.rehearsal_folder)
    policies = planned_fleet(plan(profile, build(profile, dt.datetime.now(dt.UTC).date()), profile.name), store).policies
    if running is not None:
        control.ask(running, "settings", method="PUT", body={policies.rehearsed_as: {policies.role: policies.member}})

"""Subjects that between them use every word of a form, and a profile whose author means harm."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from provision.clouds.forms import Given
from provision.launch.plan import plan
from provision.profile.load import load
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.render.base import ProfileSubject, choose
from provision.render.base import subject as subject_of

TODAY = dt.date(2026, 11, 21)
KEY = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 42}+"
# Hours ahead, because the embedded clouds refuse a deadline that has passed and one of more than 120 days. Another process gets another.
DEADLINE = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=12)).replace(second=5, microsecond=0)
CALLER = "203.0.113.7/32"
GIVEN = Given(public_key=KEY, deadline=DEADLINE, caller=CALLER)
PROFILE = Path(__file__).parents[2] / "profiles" / "t4-train.yml"

# Each breaks out of something where it is pasted and not quoted: Jinja, Terraform, CloudFormation, shell, JSON, YAML, Markdown, HTML.
EVIL = (
    "{{ lookup('pipe', 'touch pwned') }} {% raw %} ${file(\"/etc/passwd\")} %{ if true } {{resolve:ssm:/x}} ${AWS::StackName} "
    "$(touch pwned) `touch pwned` ' \" ; & | > \\ ``` ~~~ <script>alert(1)</script> !Sub #cloud-config @file [x](y)\n"
    "--- # second line"
)


def profile(**changes: Any) -> Profile:
    """The T4 profile with other parts at its top level."""
    return Profile.model_validate({**load(PROFILE).dump(), **changes})


def subject(cloud: str = "aws", *, asked: Profile | None = None, given: Given | None = None, name: str | None = None) -> ProfileSubject:
    """The first place at a cloud, with nothing given unless it is said."""
    asked = asked or profile()
    planned = plan(asked, build(asked, TODAY), name)
    return subject_of(planned, choose(planned, cloud=cloud), given)


def volumes() -> Profile:
    """A volume, spot machines, and networks of both families beside the caller."""
    data = load(PROFILE).dump()
    places = [
        {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["us-east-1"], "market": "spot"},
        {
            "cloud": "gcp",
            "instance_type": "n1-standard-8",
            "gpu": "t4",
            "gpu_count": 1,
            "zones": ["us-central1-a"],
            "market": "spot",
        },
    ]
    disk = {"source": "volume", "size_gb": 100, "mount": "/data", "filesystem": "xfs"}
    networks = ["caller", "10.20.0.0/16", "2001:db8::/48"]
    limits = {**data["limits"], "unknown_price": "allow"}  # the price of spot is unknown
    return profile(places=places, disks={**data["disks"], "data": disk}, network={"ssh_from": networks}, limits=limits)


def own() -> Profile:
    """What an account keeps itself: a key for the disks, and an identity."""
    data = load(PROFILE).dump()
    places = [
        {
            "cloud": "aws",
            "instance_type": "g4dn.xlarge",
            "regions": ["us-east-1"],
            "disk_key": "alias/isa/disks",
            "identity": {"instance_profile": "gpu-node"},
        },
        {
            "cloud": "gcp",
            "instance_type": "n1-standard-8",
            "gpu": "t4",
            "gpu_count": 1,
            "zones": ["us-central1-a"],
            "disk_key": "projects/isa-keys/locations/us-central1/keyRings/disks/cryptoKeys/gpu",
            "identity": {"service_account": "gpu-node@isa-gpu.iam.gserviceaccount.com"},
        },
    ]
    disk = {"source": "volume", "size_gb": 100, "mount": "/data", "filesystem": "xfs"}
    return profile(places=places, disks={**data["disks"], "data": disk})


def hostile() -> Profile:
    """Harm in every field that takes free text, and the most that the others let through."""
    data = load(PROFILE).dump()
    waiver = {"check": "root-room", "reason": EVIL, "owner": "a%b+c_d-e.f@example.com", "expires": "2099-01-01"}
    return profile(
        purpose=EVIL,
        owner={"name": EVIL, "email": "a%b+c_d-e.f@example.com"},
        verify={**data["verify"], "waivers": [waiver]},
        users=[{"name": "x_-y", "ssh_keys": [f"{KEY} a@b"]}],
        network={"ssh_from": ["caller", "2001:db8::/48"]},
    )


def private(cloud: str) -> Profile:
    """A machine without a public address, in a subnet, a reservation and a placement group."""
    places = {
        "aws": {
            "instance_type": "g4dn.xlarge",
            "regions": ["us-east-1"],
            "capacity": {"reservation": "cr-0123456789abcdef0", "placement_group": "team a"},
        },
        "gcp": {
            "instance_type": "n1-standard-8",
            "gpu": "t4",
            "zones": ["us-central1-a"],
            "capacity": {"reservation": "ours", "placement_policy": "close"},
        },
    }
    network = {
        "address": "private",
        "subnet": "subnet-0123456789abcdef0" if cloud == "aws" else "inside",
        "jump": "bastion",
        "ssh_from": ["10.0.0.0/8"],
    }
    return profile(places=[{"cloud": cloud, **places[cloud]}], network=network)


SUBJECTS = {
    "aws": lambda given=None: subject("aws", given=given),
    "aws-volume-spot": lambda given=None: subject("aws", asked=volumes(), given=given),
    "aws-private": lambda given=None: subject("aws", asked=private("aws"), given=given),
    "gcp-private": lambda given=None: subject("gcp", asked=private("gcp"), given=given),
    "gcp": lambda given=None: subject("gcp", given=given),
    "gcp-volume-spot": lambda given=None: subject("gcp", asked=volumes(), given=given),
    "aws-own": lambda given=None: subject("aws", asked=own(), given=given),
    "gcp-own": lambda given=None: subject("gcp", asked=own(), given=given),
    "aws-hostile": lambda given=None: subject("aws", asked=hostile(), given=given),
    "gcp-hostile": lambda given=None: subject("gcp", asked=hostile(), given=given),
}

"""What a process imports and reads before it forks command lines, so that not every fork does it again: half a second of CPU for each."""

from __future__ import annotations

import datetime as dt
import gc
import importlib
import os
import pkgutil

from provision import cli, clouds
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.client import client as gcp_client
from provision.clouds.gcp.client import session
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.lock import build

_GOOGLE = (
    *("InstancesClient", "FirewallsClient", "ImagesClient", "DisksClient", "HealthChecksClient"),
    *("RegionInstanceGroupManagersClient", "InstanceTemplatesClient"),
)


def command_line() -> None:
    """Import every command and every cloud, make a client of each kind, which sends nothing, and read the catalogue."""
    for package in (cli, clouds):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".onhost" not in module.name:  # programs of machines, which do not import gpuprov
                importlib.import_module(module.name)
    nowhere = AwsAccess("http://127.0.0.1:9", "x", "x")
    for service in ("ec2", "autoscaling", "ssm", "s3"):
        client(service, "us-east-1", nowhere)
    google = GcpAccess("http://127.0.0.1:9", "x")
    for kind in _GOOGLE:
        gcp_client(kind, google)
    session(google)
    # Where no test has an overlay: what a process knows of a path, it does not look up again.
    os.environ["GPUPROV_OVERLAY"] = "/nonexistent/overlay.json"
    profile = load.load(load.find("t4-train"))
    plan(profile, build(profile, dt.date(2026, 11, 21)), "warm")
    # A fork would copy the memory of all these objects where its collector looks at them.
    gc.collect()
    gc.freeze()

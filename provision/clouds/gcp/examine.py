"""What GCP says before a launch: reads only, all at the same time."""

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from provision.clouds import base
from provision.clouds.gcp import data, identity, image_choice, images, os_login, reservations
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.errors import GoneError
from provision.clouds.gcp.firewall import network_of
from provision.clouds.gcp.place import capacity_of
from provision.concurrent import at_once
from provision.errors import CapacityError, CloudError, ImageNotFoundError, PermissionRefusedError

_EITHER_QUOTA: Final = dt.timedelta(days=7)
_POLICY_VERSION: Final = 3  # the only one that shows bindings with conditions: `GetPolicyOptions` in Google's document


def examine(api: GcpProjectApi, order: base.Order, region: str, zones: list[str]) -> list[base.Answer]:
    """Ask all questions at the same time; the answer to one that fails is None, with the reason. GCP has no dry run.

    Args:
        api: whose project.
        order: the launch.
        region: where.
        zones: of the region, those that the catalog has the GPU in.
    """
    questions: dict[str, Callable[[], base.Answer]] = {
        "region": lambda: _region(api, region),
        "offered": lambda: _offered(api, order, zones),
        "quota": lambda: _quota(api, order, region),
        "image": lambda: _image(api, order),
        "network": lambda: _network(api, order, region),
        "apis": lambda: _apis(api, order),
        "billing": lambda: _billing(api),
    }
    capacity = capacity_of(order)
    if capacity:
        questions["capacity"] = lambda: reservations.examine(api, order, capacity, region)

    given = identity.of(order)
    if given:
        questions["identity"] = lambda: _identity(api, given.service_account)

    if identity.by_os_login(order):
        questions["os-login"] = lambda: os_login.examine(api, order)

    def ask(about: str) -> base.Answer:
        try:
            return questions[about]()
        except CloudError as error:
            return base.Answer(about, holds=False if isinstance(error, GoneError) else None, said=error.message)

    return [*at_once(ask, questions), base.Answer("dry-run", holds=None, said="Compute Engine has no dry run")]


def _network(api: GcpProjectApi, order: base.Order, region: str) -> base.Answer:
    """Whether the order's subnetwork is there, or a default network with one in the region."""
    if order.subnet:
        return base.Answer("network", holds=True, said=f"{order.subnet} is of {network_of(api, order, region)}")
    network = api.call("Networks", "get", "compute.networks.get", network="default")
    there = any(f"/regions/{region}/" in link for link in network.subnetworks)
    said = f"the default network has {'a' if there else 'no'} subnetwork in {region}"
    return base.Answer("network", holds=there, said=said if there else f"{said}: name one in network.subnet of the profile")


def _apis(api: GcpProjectApi, order: base.Order) -> base.Answer:
    """Whether the APIs that a launch uses are enabled: docs.cloud.google.com/service-usage/docs/reference/rest/v1/services/get."""
    names = ["compute", *(["oslogin"] if identity.by_os_login(order) else [])]
    paths = [f"/v1/projects/{api.project}/services/{name}.googleapis.com" for name in names]
    states = at_once(lambda path: api.ask("serviceusage", "GET", path, "serviceusage.services.get").get("state"), paths)
    off = [f"{name}.googleapis.com" for name, state in zip(names, states, strict=True) if state != "ENABLED"]
    said = f"{' and '.join(off)} not enabled: `gcloud services enable {' '.join(off)}`" if off else f"{' and '.join(names)} enabled"
    return base.Answer("apis", holds=not off, said=said)


def _billing(api: GcpProjectApi) -> base.Answer:
    """Whether an open account pays for the project: docs.cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo."""
    path = f"/v1/projects/{api.project}/billingInfo"
    on = bool(api.ask("cloudbilling", "GET", path, "resourcemanager.projects.get").get("billingEnabled"))  # Google leaves false out
    return base.Answer("billing", holds=on, said=f"{api.project} has {'an' if on else 'no'} open billing account")


def _region(api: GcpProjectApi, region: str) -> base.Answer:
    status = api.call("Regions", "get", "compute.regions.get", region=region).status
    return base.Answer("region", holds=status == "UP", said=f"{region} is {status or 'unknown'}")


def _offered(api: GcpProjectApi, order: base.Order, zones: list[str]) -> base.Answer:
    """Whether the order's zone, or which of the region's, has the machine type and the accelerator that is attached to it."""
    accelerator = data.accelerator(order.gpu)
    attaches = order.instance_type.startswith("n1-")

    def offers(zone: str) -> bool:
        try:
            api.call("MachineTypes", "get", "compute.machineTypes.get", zone=zone, machine_type=order.instance_type)
            if attaches:
                api.call("AcceleratorTypes", "get", "compute.acceleratorTypes.get", zone=zone, accelerator_type=accelerator)
        except CapacityError:
            return False
        return True

    candidates = [order.zone] if order.zone else zones
    offering = [zone for zone, here in zip(candidates, at_once(offers, candidates), strict=True) if here]
    machine = f"{order.instance_type} with {accelerator}" if attaches else order.instance_type
    if not offering:
        where = ", ".join(candidates) or "any zone that the catalog knows"
        return base.Answer("offered", holds=False, said=f"{machine} is not offered in {where}")
    return base.Answer("offered", holds=True, said=f"{machine} is offered in {', '.join(offering)}")


def _quotas(api: GcpProjectApi, region: str) -> dict[str, tuple[float, float]]:
    """Metric → (limit, usage), of the region and of the whole project."""

    def scope(name: str) -> Any:
        if name:
            return api.call("Regions", "get", "compute.regions.get", region=name)
        return api.call("Projects", "get", "compute.projects.get")

    return {q.metric: (q.limit, q.usage) for raw in at_once(scope, [region, ""]) for q in raw.quotas}


def usage_of(api: GcpProjectApi, metric: str, region: str) -> tuple[float, float] | None:
    """(limit, usage) of a metric, or None where GCP does not answer."""
    try:
        return _quotas(api, region).get(metric.upper())
    except CloudError:
        return None


def _quota(api: GcpProjectApi, order: base.Order, region: str) -> base.Answer:
    """Compare what is needed with limit and use, in GPUs: the model's quota in the region, and the quota over all regions.

    A machine that is deleted within seven days "can consume either preemptible or standard allocation quotas", and no page says when which:
    docs.cloud.google.com/compute/docs/instances/limit-vm-runtime. Where only the other one has room, it is not known.
    """
    quotas = _quotas(api, region)
    metric = data.quota(order.gpu, order.market)
    needed = order.gpu_count * order.count
    rows = [(name, *quotas[name]) for name in (metric, data.gcp().quotas.all_regions) if name in quotas]
    if not rows:
        return base.Answer("quota", holds=None, said=f"the catalog does not know which quota {order.gpu} counts against")
    holds: bool | None = all(usage + needed <= limit for _, limit, usage in rows)
    uses = " and ".join(f"{usage:g} of {limit:g} used ({name})" for name, limit, usage in rows)
    either = order.market == "on-demand" and order.deadline - dt.datetime.now(dt.UTC) <= _EITHER_QUOTA
    other = data.quota(order.gpu, "spot") if either else None
    if other in quotas:
        limit, usage = quotas[other]
        holds = holds or (None if usage + needed <= limit else False)
        uses += f", or as it ends within {_EITHER_QUOTA.days} days {usage:g} of {limit:g} used ({other})"
    return base.Answer("quota", holds=holds, said=f"{needed} GPUs needed, {uses}")


def _image(api: GcpProjectApi, order: base.Order) -> base.Answer:
    """The image, with its project and day, and whether the machine can start from it."""
    try:
        project, image = images.described(api, order)
    except (GoneError, ImageNotFoundError) as error:
        return base.Answer("image", holds=False, said=error.message)
    why = image_choice.problem(image, order)
    if why:
        return base.Answer("image", holds=False, said=f"image {image.name} of {project} {why}")
    day = f", {image.creation_timestamp[:10]}" if image.creation_timestamp else ""
    return base.Answer("image", holds=True, said=f"{image.name} (project {project}{day})")


def _identity(api: GcpProjectApi, email: str) -> base.Answer:
    """What the account may do by the project's policy; folders, the organisation, groups and single resources are not read."""
    path = f"/v3/projects/{api.project}:getIamPolicy"
    body = {"options": {"requestedPolicyVersion": _POLICY_VERSION}}
    try:
        policy = api.ask("cloudresourcemanager", "POST", path, identity.READ_POLICY, body=body)
    except PermissionRefusedError as error:
        return base.Answer("identity", holds=None, said=f"it is not known what {email} may do: {error.message}")
    authority = identity.authority(policy.get("bindings", []), email)
    elsewhere = "grants elsewhere, and to groups, are not read"
    if authority is None:
        why = f"{api.project} gives it no role of Google's that says it; {elsewhere}"
        return base.Answer("identity", holds=None, said=f"it is not known what {email} may do: {why}")
    said = f"{email}: {authority.severity} risk in {api.project}: {authority.said}; {elsewhere}"
    return base.Answer("identity", holds=authority.severity != "high", said=said, authority=authority)

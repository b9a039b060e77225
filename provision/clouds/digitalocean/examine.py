"""What DigitalOcean says before a launch: reads only, all at the same time."""

from collections.abc import Callable
from typing import Any

from provision.clouds import base
from provision.clouds.digitalocean import image_choice, requests
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.errors import ACCESS, NotThereError
from provision.concurrent import at_once
from provision.errors import CloudError, ImageNotFoundError, counted


def examine(api: DigitalOceanApi, order: base.Order, region: str) -> list[base.Answer]:
    """Ask all questions at the same time; the answer to one that fails is None, with the reason. There is no dry run."""
    questions: dict[str, Callable[[], base.Answer]] = {
        "region": lambda: _region(api, region),
        "offered": lambda: _offered(api, order, region),
        "quota": lambda: _quota(api, order),
        "image": lambda: _image(api, order, region),
        **({"volumes": lambda: _volumes(api, order)} if order.volume_gb else {}),
    }

    def ask(about: str) -> base.Answer:
        try:
            return questions[about]()
        except CloudError as error:
            return base.Answer(about, holds=False if isinstance(error, NotThereError) else None, said=error.message)

    return [*at_once(ask, questions), base.Answer("dry-run", holds=None, said="DigitalOcean has no dry run")]


def _region(api: DigitalOceanApi, region: str) -> base.Answer:
    raw = next((raw for raw in api.pages("regions_list", "regions") if raw["slug"] == region), None)
    said = "is available" if raw and raw["available"] else "takes no new droplets" if raw else "does not exist"
    return base.Answer("region", holds=bool(raw and raw["available"]), said=f"{region} {said}")


def regions_of(api: DigitalOceanApi, slug: str) -> list[str] | None:
    """The regions in which this account may have a size; None for a size that it does not see. A new account has GPUs nowhere."""
    raw: Any = next((raw for raw in api.pages("sizes_list", "sizes") if raw["slug"] == slug), None)
    return [str(region) for region in raw["regions"]] if raw and raw["available"] else None


def _offered(api: DigitalOceanApi, order: base.Order, region: str) -> base.Answer:
    """Whether the account may have the size in the region."""
    found = regions_of(api, order.instance_type)
    if not found:
        return base.Answer("offered", holds=False, said=f"this account has {order.instance_type} nowhere: {ACCESS}")
    return base.Answer("offered", holds=region in found, said=f"{order.instance_type} is offered in {', '.join(found)}")


def _quota(api: DigitalOceanApi, order: base.Order) -> base.Answer:
    """Compare what is needed with the account's limit, which counts every droplet, those that are off too; and see that it may make any."""
    account = api.call("account_get")["account"]
    if account.get("status") == "locked" or account.get("email_verified") is False:
        why = account.get("status_message") or ("it is locked" if account.get("status") == "locked" else "its address is not verified")
        return base.Answer("quota", holds=False, said=f"the account may make no droplets: {why}")
    limit = int(account["droplet_limit"])
    warned = f"; DigitalOcean warns: {account.get('status_message', '')}" if account.get("status") == "warning" else ""
    used = sum(len(api.pages("droplets_list", "droplets", type=kind)) for kind in ("droplets", "gpus"))
    said = f"{counted(order.count, 'droplet')} needed, {used} of {limit} used (droplet_limit){warned}"
    return base.Answer("quota", holds=used + order.count <= limit, said=said)


def _volumes(api: DigitalOceanApi, order: base.Order) -> base.Answer:
    """Compare what is needed with `volume_limit`, which godo's account.go has and DigitalOcean's document has not."""
    limit = api.call("account_get")["account"].get("volume_limit")
    if limit is None:
        return base.Answer("volumes", holds=None, said="DigitalOcean does not say how many volumes the account may have")
    used = len(api.pages("volumes_list", "volumes"))
    said = f"{counted(order.count, 'volume')} needed, {used} of {limit} used (volume_limit)"
    return base.Answer("volumes", holds=used + order.count <= limit, said=said)


def _image(api: DigitalOceanApi, order: base.Order, region: str) -> base.Answer:
    """The image, with its day, and whether the droplet can start from it."""
    try:
        image = api.call("images_get", image=requests.image(order))["image"]
    except (NotThereError, ImageNotFoundError) as error:
        return base.Answer("image", holds=False, said=error.message)
    name = f"{image.get('distribution', '')} {image.get('name', '')}".strip()
    why = image_choice.problem(image, order, region)
    day = f", {image['created_at'][:10]}" if image.get("created_at") else ""
    return base.Answer("image", holds=not why, said=f"{name} (image {image['id']}{day}){f' {why}' if why else ''}")

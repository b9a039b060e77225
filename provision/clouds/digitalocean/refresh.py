"""Asks DigitalOcean for what the catalog ships: sizes with their prices and regions, and the images behind the slugs."""

from collections.abc import Sequence

import msgspec

from provision.catalog.overlay import Overlay
from provision.clouds.digitalocean import data
from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.data import RefreshedSize
from provision.clouds.digitalocean.errors import NotThereError
from provision.clouds.terms import Refreshed, Say
from provision.errors import CloudInvalidError, ImageNotFoundError


def refresh_offers(before: Overlay, regions: Sequence[str], access: DigitalOceanAccess, say: Say) -> Refreshed:  # noqa: ARG001 - one call has all
    """Ask which sizes this account may have, where and at what price, and which images the slugs name now.

    Args:
        before: the overlay so far.
        regions: ignored: one call answers for all.
        access: whose token.
        say: told about progress.

    Raises:
        CloudError: what DigitalOcean said instead.
    """
    say("asking DigitalOcean for its sizes and images")
    api = DigitalOceanApi(access or DigitalOceanAccess())
    raws = {raw["slug"]: raw for raw in api.pages("sizes_list", "sizes")}
    known = data.digitalocean().sizes
    if not raws.keys() & {size.slug for size in known}:
        msg = "DigitalOcean lists none of the sizes with GPUs that are looked for"
        raise CloudInvalidError(msg, hint="ask its support for access to GPUs; the shipped figures stay in use")
    sizes, changed = {}, []
    for size in known:
        raw = raws.get(size.slug)
        here = sorted(raw["regions"]) if raw and raw["available"] else []
        was = (data.price_of(size.slug) or (0.0, ""))[0]
        usd = round(float(raw["price_hourly"]), 5) if raw else was
        sizes[size.slug] = RefreshedSize(usd, here)
        changed += [f"{size.slug}: {was:g} → {usd:g} USD"] if usd != was else []
        changed += [f"{region}: now has {size.slug}" for region in here if region not in size.regions]
        changed += [f"{region}: no longer has {size.slug}" for region in size.regions if region not in here]
    images, days, lacking = _images(api)
    layer = msgspec.structs.replace(data.refreshed(), sizes=sizes, images=images, days=days)
    origin = f"DigitalOcean's API{f' at {access.endpoint_url}' if access and access.endpoint_url else ''}"
    return Refreshed(before.with_part("digitalocean", origin, clouds=before.with_cloud("digitalocean", layer)), changed, lacking)


def _images(api: DigitalOceanApi) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Slug → id of the image that it names; id → its day; and why a slug names none."""
    images, days, lacking = {}, {}, []
    for record in data.digitalocean().images:
        try:
            raw = api.call("images_get", image=record.slug)["image"]
        except (NotThereError, ImageNotFoundError) as error:
            lacking.append(f"digitalocean: {record.os} {record.version}: {error.message}")
            continue
        images[record.slug] = str(raw["id"])
        days[str(raw["id"])] = str(raw.get("created_at") or "")[:10]
    return images, days, lacking

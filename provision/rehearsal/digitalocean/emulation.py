"""The embedded DigitalOcean as one of the embedded clouds."""

from typing import Any, Final

from provision.rehearsal.base import Traffic
from provision.rehearsal.digitalocean import guests, networks
from provision.rehearsal.digitalocean.api import DropletApi
from provision.rehearsal.digitalocean.settings import DigitaloceanSettings
from provision.rehearsal.digitalocean.world import DropletWorld
from provision.rehearsal.hosts import HostPark

_OWN_DISTRIBUTION: Final = "Ubuntu"


class DigitaloceanEmulation:
    """See `base.Emulation`."""

    def __init__(self, park: HostPark | None, traffic: Traffic) -> None:
        self.settings = DigitaloceanSettings()
        self._token = traffic.secret
        self._world = DropletWorld(self.settings, park)
        networks.seed(self._world)
        self.api = DropletApi(self._world, traffic)

    def access(self, endpoint: str) -> dict[str, str]:
        """The fields of `provision.clouds.digitalocean.access`."""
        return {"endpoint_url": endpoint, "token": self._token}

    def environment(self, endpoint: str) -> dict[str, str]:
        """The variables of DigitalOcean's own client doctl, and of its Terraform provider."""
        return {"DIGITALOCEAN_API_URL": endpoint, "DIGITALOCEAN_ACCESS_TOKEN": self._token, "DIGITALOCEAN_TOKEN": self._token}

    def instances(self) -> list[dict[str, Any]]:
        """All of them; one that is off is there until it is deleted."""
        return guests.rows(self._world)

    def ended_by_itself(self, host_id: str) -> None:
        """Its droplet is off, and is billed on."""
        guests.ended_by_itself(self._world, host_id)

    def offer_image(self, region: str, image: dict[str, str], login: str, system: str) -> None:  # noqa: ARG002 - root is the login of every image
        """Add it to the account's own images, in place of one that was offered before; a public one is named by its slug and is there."""
        if image.get("id"):
            number = int(image["id"])
            row = {"id": number, "name": f"image {number}", "distribution": _OWN_DISTRIBUTION, "regions": [region], "system": system}
            self.settings.do_images = [*(other for other in self.settings.do_images if other["id"] != number), row]

    def close(self) -> None:
        """Cancel everything that was to happen later."""
        self._world.timers.close()

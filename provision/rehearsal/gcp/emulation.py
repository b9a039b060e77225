"""The embedded GCP as one of the embedded clouds."""

from typing import Any

from werkzeug.middleware.dispatcher import DispatcherMiddleware

from provision.clouds.gcp.own_image import GcpOwnImage
from provision.rehearsal.base import Traffic, serving, whole_path
from provision.rehearsal.gcp import guests, images, networks
from provision.rehearsal.gcp.api import GcpApi
from provision.rehearsal.gcp.metadata import PREFIX, MetadataServer
from provision.rehearsal.gcp.settings import PROJECT, GcpSettings
from provision.rehearsal.gcp.world import World
from provision.rehearsal.hosts import HostPark


class GcpEmulation:
    """See `base.Emulation`."""

    def __init__(self, park: HostPark | None, traffic: Traffic) -> None:
        self.settings = GcpSettings()
        self._token = traffic.secret
        self._world = World(self.settings, park)
        networks.seed(self._world)
        metadata = MetadataServer(self._world)
        self.api = GcpApi(self._world, traffic, metadata)
        # What the machines reach, at an address of their network: the metadata server and Cloud Storage.
        machines = DispatcherMiddleware(self.api, {PREFIX.rstrip("/"): whole_path(metadata)})
        self._machines = serving(park.network.gateway if park else "127.0.0.1", machines)

    def access(self, endpoint: str) -> dict[str, str]:
        """The fields of `provision.clouds.gcp.client.Access`."""
        machines = f"http://{self._machines.host}:{self._machines.port}"
        return {"project": PROJECT, "endpoint_url": endpoint, "token": self._token, "machine_endpoint_url": machines}

    def environment(self, endpoint: str) -> dict[str, str]:
        """GPUPROV_GCP_ENDPOINT is ours: Google's library has no variable for it. The token is in the variable of gcloud."""
        return {"GPUPROV_GCP_ENDPOINT": endpoint, "GOOGLE_CLOUD_PROJECT": PROJECT, "CLOUDSDK_AUTH_ACCESS_TOKEN": self._token}

    def instances(self) -> list[dict[str, Any]]:
        """All of them; a stopped one is there until it is deleted."""
        return guests.rows(self._world)

    def ended_by_itself(self, host_id: str) -> None:
        """Stop the instance, so that it can be started again."""
        guests.ended_by_itself(self._world, host_id)

    def offer_image(self, region: str, image: dict[str, str], login: str, system: str) -> None:  # noqa: ARG002 - its agent makes the user
        """Add it to the images of its project, which are of the whole world, in place of one that was offered before."""
        row = images.stand_in(GcpOwnImage.model_validate(image), system)
        self.settings.gce_images = [*(other for other in self.settings.gce_images if other != row), row]

    def close(self) -> None:
        """Cancel everything that was to happen later."""
        self._world.timers.close()
        self._machines.shutdown()

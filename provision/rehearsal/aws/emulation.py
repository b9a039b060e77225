"""The embedded AWS as one of the embedded clouds."""

import functools
import time
from typing import Any

from moto.core import responses
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from provision.clouds.aws.own_image import AwsOwnImage
from provision.rehearsal.aws import (
    autoscaling,
    baking,
    capacity,
    cloudformation,
    guardrails,
    images,
    instances,
    launch,
    networks,
    offers,
    quota,
    shown,
    spot,
    templates,
    world,
)
from provision.rehearsal.aws.api import OWNERS_KEY, AwsApi
from provision.rehearsal.aws.metadata import Metadata
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.base import Traffic, serving, whole_path
from provision.rehearsal.hosts import HostPark


class AwsEmulation:
    """See `base.Emulation`. It changes moto's classes, so a process holds one."""

    def __init__(self, park: HostPark | None, traffic: Traffic) -> None:
        self.settings = AwsSettings()
        self._park = park
        launch.patch(self.settings, park)
        instances.patch(self.settings, park)
        shown.patch(self.settings)
        networks.patch(self.settings)
        offers.patch(self.settings)
        images.patch(self.settings)
        baking.patch(self.settings, park)
        quota.patch(self.settings)
        spot.patch(self.settings)
        capacity.patch(self.settings)
        cloudformation.patch()
        guardrails.patch(self.settings)
        templates.patch()
        application = DomainDispatcherApplication(create_backend_app)
        # At each request moto looks through its folders for the host, and through a class for its methods: a third of what it costs.
        application.get_backend_for_host = functools.cache(application.get_backend_for_host)
        responses.method_names_from_class = functools.cache(responses.method_names_from_class)
        self._groups = autoscaling.patch(self.settings, application, self._now)
        self._secret = traffic.secret
        metadata = Metadata(self._groups.target_state)
        self.api = AwsApi(application, self.settings, traffic, self._groups, metadata)
        # What the machines reach, at an address of their network: the metadata service and the API.
        machines = DispatcherMiddleware(self.api, {"/latest": whole_path(metadata)})
        self._machines = serving(park.network.gateway if park else "127.0.0.1", machines)

    def _now(self) -> float:
        """The clock of the groups, which a test may put forward."""
        return time.time() + self.settings.clock_ahead_s

    def access(self, endpoint: str) -> dict[str, str]:
        """The fields of `provision.clouds.aws.access.AwsAccess`."""
        machines = f"http://{self._machines.host}:{self._machines.port}"
        return {"endpoint_url": endpoint, "access_key_id": OWNERS_KEY, "secret_access_key": self._secret, "machine_endpoint_url": machines}

    def environment(self, endpoint: str) -> dict[str, str]:
        """The variables that AWS's SDKs and its command read."""
        return {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": OWNERS_KEY,
            "AWS_SECRET_ACCESS_KEY": self._secret,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def instances(self) -> list[dict[str, Any]]:
        """Those that are not terminated."""
        alive = [instance for instance in world.instances() if instance.state != "terminated"]
        return [{"id": i.id, "state": i.state, "type": i.instance_type, "address": i.public_ip} for i in alive]

    def ended_by_itself(self, host_id: str) -> None:
        """Terminate or stop the instance, as its shutdown behaviour says."""
        if self._park:
            instances.ended_by_itself(self._park, host_id)

    def offer_image(self, region: str, image: dict[str, str], login: str, system: str) -> None:
        """Add it to the images of the region, in place of one that was offered before."""
        row = images.stand_in(AwsOwnImage.model_validate(image), region, login, system)
        self.settings.amis = [*(other for other in self.settings.amis if other != row), row]

    def close(self) -> None:
        """End the loop of the groups."""
        self._groups.close()
        self._machines.shutdown()

"""Images that gpuprov makes itself, in a project of GCP; they are global, so one serves all zones.

The machine is stopped before, so its disk is whole. The name of an image has its digest and is unique in a project: two who bake the same
get one image. Labels find an image; its description has the tags in full, because a label holds neither `:` nor capitals.
Source of the calls: docs.cloud.google.com/compute/docs/reference/rest/v1/images.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from provision.clouds.baked import DIGEST_TAG, LINE_TAG, PARTS, BakedImage, BaseImage, ImageFailedError, Recipe, part_tag, tags_of
from provision.clouds.base import OWNER_TAG, Instance, Order, Step
from provision.clouds.gcp import images, power
from provision.clouds.gcp.answers import tags_of_firewall
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.errors import AlreadyThereError, GoneError
from provision.clouds.gcp.image_users import users_of
from provision.clouds.gcp.requests import label
from provision.clouds.polling import poll
from provision.errors import ImageNotFoundError

_LINE: Final = "gpuprov-baked"
_DIGEST: Final = "gpuprov-baked-digest"
_LONGEST: Final = 63  # docs.cloud.google.com/compute/docs/naming-resources
_DONE_S: Final = 300.0
_STATES: Final[dict[str, Literal["pending", "available", "failed"]]] = {"READY": "available", "PENDING": "pending"}


def name_of(recipe: Recipe, base_id: str) -> str:
    """The name of an image: of its line as much as there is room for, and the whole digest."""
    digest = recipe.digest(base_id)
    line = recipe.line[: _LONGEST - len(digest) - len("gpuprov--")].rstrip("-")
    return f"gpuprov-{line}-{digest}"


def resource_of(disk: Any, recipe: Recipe, base_id: str, added: dict[str, str]) -> dict[str, Any]:
    """The image of a boot disk, under the key of that disk.

    Args:
        disk: as the machine has it attached.
        recipe: what the image is made of.
        base_id: the image that the machine started from.
        added: the tags of its profile.
    """
    tags = tags_of(recipe, base_id, added)
    key = disk.disk_encryption_key.kms_key_name.partition("/cryptoKeyVersions/")[0]
    labels = {_LINE: label(recipe.line), _DIGEST: recipe.digest(base_id), **{label(name): label(value) for name, value in added.items()}}
    return {
        "name": name_of(recipe, base_id),
        "description": json.dumps(tags, sort_keys=True),
        "labels": labels,
        "source_disk": disk.source,
        **({"image_encryption_key": {"kms_key_name": key}} if key else {}),
    }


class GcpBakery:
    """See `baked.Bakery`."""

    def __init__(self, api: GcpProjectApi) -> None:
        self._api = api
        self._operations: dict[str, Any] = {}  # name of an image → what makes it, which says why it fails

    def base(self, order: Order) -> BaseImage:
        """The image of the order's place, lock or system."""
        try:
            project, image = images.described(self._api, order)
        except GoneError as error:
            raise ImageNotFoundError(error.message, hint="see `image:` of the place, or the system of the profile") from error
        return BaseImage(f"{project}/{image.name}", image.name)

    def images(self, line: str | None = None) -> list[BakedImage]:
        """Ours in the project, by label."""
        query = f'labels.{_LINE}="{label(line)}"' if line else f"labels.{_LINE}:*"
        found = [self._image(raw) for raw in self._api.pages("Images", "list", "compute.images.list", filter=query)]
        ours = [image for image in found if line in {None, image.line}]
        return sorted(ours, key=lambda image: (image.made_at, image.id), reverse=True)

    def _image(self, raw: Any) -> BakedImage:
        tags = tags_of_firewall(raw)
        return BakedImage(
            id=raw.name,
            name=raw.name,
            line=tags.get(LINE_TAG, raw.labels.get(_LINE, "")),
            digest=tags.get(DIGEST_TAG, ""),
            cloud="gcp",
            region="global",
            state=_STATES.get(raw.status, "failed"),
            made_at=raw.creation_timestamp,
            size_gb=int(raw.disk_size_gb),
            deprecated=raw.deprecated.state in {"DEPRECATED", "OBSOLETE", "DELETED"},
            encrypted=True,  # Google encrypts all images at rest, with its own key where no other is named
            owner=tags.get(OWNER_TAG, ""),
            parts={part: tags[part_tag(part)] for part in PARTS if part_tag(part) in tags},
        )

    def _named(self, name: str) -> BakedImage | None:
        try:
            return self._image(self._api.call("Images", "get", "compute.images.get", image=name))
        except GoneError:
            return None

    def make(self, instance: Instance, recipe: Recipe, base: BaseImage) -> BakedImage:
        """Insert the image; the name that is taken is the same image, by somebody else or an earlier try of ours."""
        raw = power.raw_of(self._api, instance)
        if raw is None:
            msg = f"{instance.id}, whose disk was to become an image, is gone"
            raise ImageFailedError(msg, hint="run the same `gpuprov bake make` again; it begins with another machine")
        disk = next(each for each in raw.disks if each.boot)
        resource = resource_of(disk, recipe, base.id, dict(instance.tags))
        name = resource["name"]
        with contextlib.suppress(AlreadyThereError):  # the digest of what is there is compared below; the name makes a repetition harmless
            self._operations[name] = self._api.call("Images", "insert_unary", "compute.images.create", image_resource=resource)
        found = self._named(name)
        if found is None:
            self._explain(name)
            msg = f"the project does not show the image {name}, which it accepted"
            raise ImageFailedError(msg, hint="run the same `gpuprov bake make` again")
        if found.digest != recipe.digest(base.id):
            msg = f"the image {name} is not of that digest"
            raise ImageFailedError(msg, hint="somebody made or changed it by hand: delete it, and run the same command again")
        return found

    def _explain(self, name: str) -> None:
        """Raise why an image was not made, where its operation is known and says it."""
        if name in self._operations:
            self._api.success_of(self._operations[name], "compute.images.create", timeout_s=_DONE_S)

    def wait(self, image: BakedImage, *, timeout_s: float, on_step: Step) -> BakedImage:
        """Poll the image; Google does not say how far one is."""

        def ask() -> BakedImage | None:
            current = self._named(image.name)
            if current is not None and current.state == "pending":
                on_step(f"waiting for {image.id}")
            return current

        found = poll(ask, lambda current: current is None or current.state != "pending", timeout_s=timeout_s)
        if found is not None and found.state == "available":
            return found
        state = "is gone" if found is None else f"is still pending after {timeout_s:g} s" if found.state == "pending" else "failed"
        if found is None or found.state == "failed":
            self._explain(image.name)
        msg = f"the image {image.id} {state}"
        hint = "run the same `gpuprov bake make` again; it goes on with an image that is pending, and replaces one that failed"
        raise ImageFailedError(msg, hint=hint)

    def deprecate(self, images: Sequence[BakedImage], *, lift: bool = False) -> None:
        """Set the state to DEPRECATED, or to ACTIVE again.

        Machines are still made from a deprecated image; from one that is OBSOLETE they are not
        (docs.cloud.google.com/compute/docs/images/deprecate-custom).
        """
        for image in images:
            status = {"state": "ACTIVE" if lift else "DEPRECATED"}
            self._api.run(
                "Images",
                "deprecate_unary",
                "compute.images.deprecate",
                timeout_s=_DONE_S,
                image=image.name,
                deprecation_status_resource=status,
            )

    def users(self, images: Sequence[BakedImage]) -> Mapping[str, tuple[str, ...]]:
        """The project's managed instance groups."""
        return users_of(self._api, [image.id for image in images])

    def remove(self, images: Sequence[BakedImage], *, on_step: Step) -> list[str]:
        """Delete images, which hold their disks themselves."""
        phrases = []
        for image in images:
            on_step(f"removing {image.id}")
            try:
                self._api.run("Images", "delete_unary", "compute.images.delete", timeout_s=_DONE_S, image=image.name)
            except GoneError:
                continue
            phrases.append(f"image {image.id}")
        return phrases

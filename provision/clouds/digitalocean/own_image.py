"""An image of one's own on DigitalOcean, or one of its images with a driver, as a place of a profile names it."""

from typing import Annotated

from pydantic import Field, StringConstraints

from provision.clouds.own_image import OwnImage

ImageSlug = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$"), Field(description="the slug of a public image, such as gpu-h100x1-base")
]
ImageNumber = Annotated[int, Field(ge=1, le=2**53, description="the id of a snapshot or a custom image")]
# 16 bytes of MD5, as DigitalOcean shows it (resources/ssh_keys/attributes/ssh_key_fingerprint.yml).
KeyFingerprint = Annotated[
    str,
    StringConstraints(pattern=r"^([0-9a-f]{2}:){15}[0-9a-f]{2}$"),
    Field(description="the fingerprint of an SSH key that is registered in the team, as 3b:16:e4:…"),
]


class DigitalOceanOwnImage(OwnImage):
    """A public image by its slug, or a snapshot or custom image by its id.

    `ssh_key` is for images that DigitalOcean starts only with a registered key, as it does its AI/ML images. Nobody logs in with it: root
    cannot log in.
    """

    slug: ImageSlug | None = None
    """A public image by its name at the cloud."""
    id: ImageNumber | None = None
    """A snapshot or a custom image of the account."""
    ssh_key: KeyFingerprint | None = None
    """A registered key, for images that are started only with one. Nobody logs in with it."""

    @property
    def lookup(self) -> str:
        """How it is found."""
        return self.slug or f"image {self.id}"

    @property
    def source(self) -> str:
        """What a create names as the image."""
        return self.slug or str(self.id)

    def finding_problem(self) -> str:
        """What is wrong with how it is to be found."""
        problem = self._ways(("slug",), ("id",))
        if not problem and (self.slug or "").startswith("gpu-") and self.ssh_key is None:
            # docs/sources/clouds.md §15: such a create is refused with 422, whatever the user data brings.
            return f"DigitalOcean starts {self.slug} only with a registered SSH key; name its fingerprint in ssh_key"
        return problem

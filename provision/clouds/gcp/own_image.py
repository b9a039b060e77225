"""An image of one's own on GCP, as a place of a profile names it."""

from typing import Annotated

from pydantic import Field, StringConstraints

from provision.clouds.own_image import OwnImage

# The form of a project's id and of a resource's name: cloud.google.com/resource-manager/docs/creating-managing-projects and
# cloud.google.com/compute/docs/naming-resources.
GcpProject = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$"), Field(description="the id of the project that has the image")
]
ImageName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"),
    Field(description="the name of an image, or of a family of images, such as golden-9"),
]


class GcpOwnImage(OwnImage):
    """One image of a project: the newest of a family, or the one of a name."""

    project: GcpProject | None = None
    """The project that has the image."""
    family: ImageName | None = None
    """A family of images. The newest is taken, so a new build is used without a change here."""
    name: ImageName | None = None
    """One image. It never changes by itself."""

    @property
    def lookup(self) -> str:
        """How it is found."""
        return f"{self.project}/{self.family or self.name}"

    @property
    def source(self) -> str:
        """What an insert names as the image of its boot disk."""
        return f"projects/{self.project}/global/images/{f'family/{self.family}' if self.family else self.name}"

    def finding_problem(self) -> str:
        """What is wrong with how it is to be found."""
        return self._ways(("project", "family"), ("project", "name"))

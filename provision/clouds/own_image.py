"""An image of one's own, as a place of a profile names it: the part that all clouds share."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from provision.clouds.own import CloudOption
from provision.strict import StrictModel

ImageLogin = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,31}$"),
    Field(description="the first user of the image, such as ec2-user; never root, who cannot log in"),
]
DriverBranch = Annotated[str, StringConstraints(pattern=r"^[0-9]{3}$"), Field(description='a branch of the driver, in quotes: "580"')]


class ImageContents(StrictModel):
    """What is on an image already. It is not installed again: `converge` leaves it, and `verify` proves that it is what is said here."""

    driver: DriverBranch
    """The branch of the driver that is on the image. It is not installed again, and `verify` proves it."""
    driver_flavour: Literal["open", "proprietary"] | None = None
    """Which kernel modules that driver has, where `verify` should prove that as well."""


class OwnImage(StrictModel):
    """The keys that an image of one's own has at every cloud; each cloud adds how it is found."""

    login: ImageLogin | None = None
    """The image's first user, where it is not that of its system."""
    has: ImageContents | None = None
    """What is on the image already."""

    @field_validator("login")
    @classmethod
    def _may_log_in(cls, value: str | None) -> str | None:
        if value == "root":
            msg = "root never logs in over SSH; name the image's first user, who has sudo"
            raise ValueError(msg)
        return value

    @property
    def lookup(self) -> str:
        """How it is found, in a few words."""
        raise NotImplementedError

    def _ways(self, *ways: tuple[str, ...]) -> str:
        """What is wrong with the keys that find it; empty where exactly one of these sets is given."""
        keys = {key for way in ways for key in way}
        given = {key for key in keys if getattr(self, key) is not None}
        if any(given == set(way) for way in ways):
            return ""
        return f"an image is named by {', or by '.join(' and '.join(way) for way in ways)}"

    @model_validator(mode="after")
    def _found_one_way(self) -> Self:
        problem = self.finding_problem()
        if problem:
            raise ValueError(problem)
        return self

    def finding_problem(self) -> str:
        """What is wrong with how it is to be found; empty when nothing."""
        raise NotImplementedError


def option_of(image: OwnImage | None) -> tuple[CloudOption, ...]:
    """What the plan and the review say of an image of one's own; nothing where the place takes the publisher's."""
    if image is None:
        return ()
    has = f", with driver {image.has.driver}" if image.has else ""
    reason = "whoever made it decided what starts with it: agents, accounts, keys and services that no list here has"
    return (
        CloudOption(
            "image",
            f"starts from {image.lookup}{has}",
            "low",
            "The machine starts from a custom image",
            reason,
            "leave `image` out, which takes the newest of the system's publisher",
        ),
    )

"""An image of one's own on AWS, as a place of a profile names it."""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from provision.clouds.aws.disk_key import AwsDiskKey
from provision.clouds.own_image import OwnImage

# docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RegisterImage.html, Name: 3-128 of these characters; `*` and `?` are a filter's.
_NAME: Final = r"^[A-Za-z0-9()\[\] ./'@_*?-]{3,128}$"
AmiId = Annotated[
    str, StringConstraints(pattern=r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$"), Field(description="the id of an image in one region, as ami-0…")
]
AmiOwner = Annotated[
    str, StringConstraints(pattern=r"^([0-9]{12}|self|amazon)$"), Field(description="the account that owns the image, `self` or `amazon`")
]
AmiName = Annotated[
    str, StringConstraints(pattern=_NAME), Field(description="the image's name, with * for what changes; the newest that fits is taken")
]
ParameterName = Annotated[
    str,
    StringConstraints(pattern=r"^(/[A-Za-z0-9_.-]{1,100}){1,15}$"),
    Field(description="a parameter of Systems Manager that holds the image's id"),
]
_LEAST: Final = 3  # letters and digits of a name that are not wildcards


class AwsOwnImage(OwnImage):
    """One image: by its id, by its owner and name, or by a parameter that holds its id."""

    id: AmiId | None = None
    """One image, in one region. It never changes by itself."""
    owner: AmiOwner | None = None
    """Whose image it is; needed with `name`."""
    name: AmiName | None = None
    """Its name, in which * stands for what changes. The newest is taken, so a new build is used without a change here."""
    parameter: ParameterName | None = None
    """A parameter that holds the id of the image that is current, where your builds write one."""
    snapshot_key: AwsDiskKey | None = None
    """The key that the image's own disk is encrypted with. A launch has to read it, so its permissions are computed with it."""

    @property
    def lookup(self) -> str:
        """How it is found."""
        return self.id or self.parameter or f"{self.owner} {self.name}"

    def finding_problem(self) -> str:
        """What is wrong with how it is to be found."""
        if self.name is not None and sum(letter.isalnum() for letter in self.name) < _LEAST:
            return f"a name of an image has {_LEAST} letters or digits at least, so that it does not fit every image of its owner"
        return self._ways(("id",), ("owner", "name"), ("parameter",))

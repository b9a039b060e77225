"""What the clouds said of the identities of a profile's machines: asked for a review, kept in its bundle.

Whoever changes an identity's policies changes what it may do. So the answer has a date, and says nothing of any day after it.
"""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from provision.clouds.base import Answer
from provision.errors import BundleInvalidError
from provision.launch.plan import PlannedPlace
from provision.report.base import inert
from provision.review.bundle import Bundle, StrictRecord

FILE: Final = "identities.json"
"""Its name in a bundle."""
_MAX_SAID: Final = 2_000
_MAX_PLACES: Final = 100


def _day(text: str) -> str:
    return dt.date.fromisoformat(text).isoformat()


class ReadIdentity(StrictRecord):
    """What one place's identity may do.

    Attributes:
        place: the number of the place in the profile, from 0.
        severity: how a review grades it; None where that is not known.
        said: the widest of what it may do, or why that is not known.
    """

    place: Annotated[int, Field(ge=0, lt=_MAX_PLACES)]
    severity: Literal["high", "medium", "low"] | None
    said: Annotated[str, Field(max_length=_MAX_SAID)]


class ReadIdentities(StrictRecord):
    """What the clouds said on a day."""

    schema_version: Annotated[Literal["gpuprov-identities/1"], Field(alias="schema")]
    on: Annotated[str, AfterValidator(_day)]
    identities: Annotated[list[ReadIdentity], Field(max_length=_MAX_PLACES)]

    def of_place(self, number: int) -> ReadIdentity | None:
        """What is known of a place's identity; None where nobody asked."""
        return next((identity for identity in self.identities if identity.place == number), None)

    def reason(self, identity: ReadIdentity) -> str:
        """What a review says of it."""
        if identity.severity is None:
            return f"the cloud was asked on {self.on}, and it is still not known what the machine may do: {identity.said}"
        return f"on {self.on} its policies said: {identity.said}. They may say more tomorrow, and no approval notices that"

    def as_dict(self) -> dict[str, Any]:
        """The form in a bundle."""
        return self.model_dump(mode="json", by_alias=True)


def acts(place: PlannedPlace) -> bool:
    """Whether the machines of a place act in their cloud."""
    return any(option.key == "identity" for option in place.cloud_options)


def read_from(answers: Mapping[PlannedPlace, Sequence[Answer]], today: dt.date) -> ReadIdentities:
    """What the answers about places say of their identities: of each place the most, whichever region said it.

    A region that is not enabled says nothing of an identity; its answer is the reason where no region says anything.
    """
    found: list[ReadIdentity] = []
    for number in sorted({place.index for place in answers}):
        regions = [given for place, given in answers.items() if place.index == number]
        about = [answer for given in sorted(regions, key=_is_closed) for answer in given if answer.about == "identity"] or regions[0]
        known = max((answer.authority for answer in about if answer.authority), default=None)
        why = about[0]
        said = inert(known.said if known else why.said, _MAX_SAID)
        found.append(ReadIdentity(place=number, severity=known.severity if known else None, said=said))
    return ReadIdentities.model_validate({"schema": "gpuprov-identities/1", "on": today.isoformat(), "identities": found})


def _is_closed(answers: Sequence[Answer]) -> bool:
    """Whether answers come from a region that is not enabled, or could not be asked."""
    return not next((answer.holds for answer in answers if answer.about == "region"), False)


def of_bundle(bundle: Bundle) -> ReadIdentities | None:
    """What the maker of a bundle was told; None where nobody asked.

    Raises:
        BundleInvalidError: the file is not what gpuprov writes.
    """
    raw = bundle.files.get(FILE)
    if raw is None:
        return None
    try:
        return ReadIdentities.model_validate(json.loads(raw))
    except (ValueError, ValidationError, RecursionError) as error:
        msg = f"{bundle.path}: {FILE} does not say what the machines may do in the form that `gpuprov review --ask` writes"
        raise BundleInvalidError(msg, hint="ask for the bundle again, or write it again with `gpuprov review --ask`") from error

"""Objects of a cloud's answer. A missing key, or a value of another type, means that the answer is not the cloud's, or is cut."""

from typing import Any, Final

import msgspec

from provision.catalog.records.base import typed
from provision.errors import CloudUnreachableError

AGAIN: Final = "check the network and run the same command again; it goes on where it stopped"


def check_shape(answer: object, shape: Any) -> None:
    """See that what an answer has of a shape is of its types.

    Args:
        answer: JSON.
        shape: a `TypedDict`; its keys may be missing.

    Raises:
        CloudUnreachableError: a value is of another type.
    """
    try:
        typed(answer, shape, strict=False)
    except msgspec.ValidationError as error:
        msg = "an answer of the cloud has a value of another type: it is not the cloud's own"
        raise CloudUnreachableError(msg, hint=AGAIN, detail=str(error)) from error


class Received(dict[str, Any]):
    """An object of an answer. Whoever reads a key that it does not have learns that the cloud did not answer."""

    def __missing__(self, key: str) -> Any:
        """Raise our error in the place of Python's.

        Raises:
            CloudUnreachableError: always.
        """
        msg = f"an answer of the cloud has no {key!r}: it is not the cloud's own, or only a part of it"
        raise CloudUnreachableError(msg, hint=AGAIN)

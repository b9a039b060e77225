"""Objects of a cloud's answer, in which a missing key means that the answer is not the cloud's, or is cut."""

from typing import Any

from provision.errors import CloudUnreachableError


class Received(dict[str, Any]):
    """An object of an answer. Whoever reads a key that it does not have learns that the cloud did not answer."""

    def __missing__(self, key: str) -> Any:
        """Raise our error in the place of Python's.

        Raises:
            CloudUnreachableError: always.
        """
        msg = f"an answer of the cloud has no {key!r}: it is not the cloud's own, or only a part of it"
        raise CloudUnreachableError(msg, hint="check the network and run the same command again; it goes on where it stopped")

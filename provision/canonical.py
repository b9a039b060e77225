"""One canonical form of JSON-compatible data, so that equal data has equal bytes and one digest."""

import hashlib
import json
from typing import Any


def canonical(data: Any) -> bytes:
    """Return the data as JSON with sorted keys, without spaces, in ASCII.

    Args:
        data: plain data, as `json.dumps` takes it.

    Raises:
        TypeError: something in it is not JSON-compatible.
    """
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def digest(data: Any) -> str:
    """Return the SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(canonical(data)).hexdigest()

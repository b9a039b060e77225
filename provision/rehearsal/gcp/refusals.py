"""What Compute Engine refuses at once, in its JSON shape. What fails later is the error of an operation (operations.py)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any


class ComputeError(Exception):
    """An HTTP answer other than 200.

    Args:
        http: the status.
        reason: Google's word for it, such as `notFound`.
        message: what a user reads.
    """

    def __init__(self, http: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.http = http
        self.reason = reason
        self.message = message

    def body(self) -> dict[str, Any]:
        """The error as Google's API sends it."""
        domain = "usageLimits" if self.reason in {"quotaExceeded", "rateLimitExceeded"} else "global"
        first = {"message": self.message, "domain": domain, "reason": self.reason}
        return {"error": {"code": self.http, "message": self.message, "errors": [first]}}


def invalid(field: str, value: object, why: str) -> ComputeError:
    """A field whose value cannot be.

    Args:
        field: such as `resource.machineType`.
        value: what was sent.
        why: a sentence.
    """
    return ComputeError(HTTPStatus.BAD_REQUEST, "invalid", f"Invalid value for field '{field}': '{value}'. {why}")


def require(body: dict[str, Any], *fields: str, at: str = "resource") -> None:
    """Refuse a body that lacks one of these fields.

    Raises:
        ComputeError: 400, naming the first that is missing.
    """
    for field in fields:
        if not body.get(field):
            raise required(f"{at}.{field}")


def required(field: str) -> ComputeError:
    """A field that must be there and is not."""
    return ComputeError(HTTPStatus.BAD_REQUEST, "required", f"Required field '{field}' not specified")


def not_found(path: str) -> ComputeError:
    """Nothing has this path, which begins with `projects/`."""
    return ComputeError(HTTPStatus.NOT_FOUND, "notFound", f"The resource '{path}' was not found")


def exists(path: str) -> ComputeError:
    """Something has this path already."""
    return ComputeError(HTTPStatus.CONFLICT, "alreadyExists", f"The resource '{path}' already exists")


def in_use(path: str, user: str) -> ComputeError:
    """Something else needs it."""
    words = f"The {path.rsplit('/', 2)[-2].removesuffix('s')} resource '{path}' is already being used by '{user}'"
    return ComputeError(HTTPStatus.BAD_REQUEST, "resourceInUseByAnotherResource", words)


def stale(what: str) -> ComputeError:
    """A fingerprint that is not the present one."""
    words = f"Supplied fingerprint does not match current {what} fingerprint."
    return ComputeError(HTTPStatus.PRECONDITION_FAILED, "conditionNotMet", words)


def forbidden(permission: str, path: str) -> ComputeError:
    """A permission that the caller lacks."""
    return ComputeError(HTTPStatus.FORBIDDEN, "forbidden", f"Required '{permission}' permission for '{path}'")

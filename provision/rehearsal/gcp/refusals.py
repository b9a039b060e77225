"""What Compute Engine refuses at once, in its JSON shape. What fails later is the error of an operation (operations.py)."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

_STATUS: Final = {
    "notFound": 404,
    "alreadyExists": 409,
    "conditionNotMet": 412,
    "forbidden": 403,
    "notImplemented": 501,
    "emulatorError": 500,
}
"""Google's word for a reason → the HTTP status; 400 for the others."""


class ComputeError(Exception):
    """An HTTP answer other than 200, with Google's word for the reason and what a user reads; `more` are further messages of it.

    With `details` the reason stands there alone, as newer services have it: https://cloud.google.com/apis/design/errors
    """

    def __init__(
        self, reason: str, message: str, *, http: int | None = None, more: Iterable[str] = (), details: Sequence[dict[str, Any]] = ()
    ) -> None:
        super().__init__(message)
        self.http = http or _STATUS.get(reason, 400)
        self.reason = reason
        self.message = message
        self.more = tuple(more)
        self.details = list(details)

    def body(self) -> dict[str, Any]:
        """The error as Google's API sends it."""
        if self.details:
            return {"error": {"code": self.http, "message": self.message, "details": self.details}}
        domain = "usageLimits" if self.reason in {"quotaExceeded", "rateLimitExceeded"} else "global"
        errors = [{"message": message, "domain": domain, "reason": self.reason} for message in (self.message, *self.more)]
        return {"error": {"code": self.http, "message": self.message, "errors": errors}}


def invalid(field: str, value: object, why: str) -> ComputeError:
    """A field, such as `resource.machineType`, whose value cannot be; `why` is a sentence."""
    return ComputeError("invalid", f"Invalid value for field '{field}': '{value}'. {why}")


def require(body: dict[str, Any], *fields: str, at: str = "resource") -> None:
    """Refuse a body that lacks one of these fields."""
    for field in fields:
        if not body.get(field):
            raise required(f"{at}.{field}")


def required(field: str) -> ComputeError:
    """A field that must be there and is not."""
    return ComputeError("required", f"Required field '{field}' not specified")


def not_implemented(method: str, fields: Iterable[str] = ()) -> ComputeError:
    """A method, or some of its fields, that Google has and the emulator has not: better refused than ignored."""
    return ComputeError("notImplemented", f"The embedded GCP does not do {' with '.join([method, *filter(None, [', '.join(fields)])])}")


def not_found(path: str) -> ComputeError:
    """Nothing has this path, which begins with `projects/`."""
    return ComputeError("notFound", f"The resource '{path}' was not found")


def exists(path: str) -> ComputeError:
    """Something has this path already."""
    return ComputeError("alreadyExists", f"The resource '{path}' already exists")


def in_use(path: str, user: str) -> ComputeError:
    """Something else needs it."""
    words = f"The {path.rsplit('/', 2)[-2].removesuffix('s')} resource '{path}' is already being used by '{user}'"
    return ComputeError("resourceInUseByAnotherResource", words)


def stale(what: str) -> ComputeError:
    """A fingerprint that is not the present one."""
    words = f"Supplied fingerprint does not match current {what} fingerprint."
    return ComputeError("conditionNotMet", words)


def forbidden(permission: str, path: str) -> ComputeError:
    """A permission that the caller lacks."""
    return ComputeError("forbidden", f"Required '{permission}' permission for '{path}'")

"""Everything that can fail, one class per failure, each with a way out.

A class fixes the code (kebab-case, never reused) and the process exit code; whoever raises it must say what happened in one line
and what to do about it in another. One boundary prints them: `provision.cli`.
"""

from typing import Any, ClassVar, Final

EXIT_OK: Final = 0
EXIT_FAILED_CHECK: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNKNOWN: Final = 3
EXIT_CLOUD_OR_PLAYBOOK: Final = 4
EXIT_INTERNAL: Final = 70
EXIT_INTERRUPTED: Final = 130
EXIT_CUT: Final = 141


class GpuprovError(Exception):
    """A failure that gpuprov understands.

    Args:
        message: what happened, one line, no secrets.
        hint: what to do now, one line; mandatory by design.
        detail: what the other side said, shown with `--verbose` and in logs only.

    Attributes:
        always_detailed: whether the detail is shown without `--verbose` as well, because nobody could ask for it again.
    """

    code: ClassVar[str] = "error"
    exit_code: int = EXIT_CLOUD_OR_PLAYBOOK
    always_detailed: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: str | None = None, exit_code: int | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code
        if exit_code is not None:
            cls.exit_code = exit_code

    def __init__(self, message: str, *, hint: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number of things in words, such as `1 place` or `4 places`; `plural` for a noun that takes more than an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


# --- what is asked ------------------------------------------------------------------------------------------------


class FileRefusedError(GpuprovError, code="file-refused", exit_code=EXIT_USAGE):
    """The file system refused to write or read: it is full, read-only, or not permitted."""


class InternalError(GpuprovError, code="internal", exit_code=EXIT_INTERNAL):
    """An exception that nothing expected: a defect of gpuprov."""


class ProfileNotFoundError(GpuprovError, code="profile-not-found", exit_code=EXIT_USAGE):
    """No profile of that name, and no such file."""


class ProfileInvalidError(GpuprovError, code="profile-invalid", exit_code=EXIT_USAGE):
    """The file is not a valid profile; the message has the first errors, one a line, and `complaints` all of them."""

    complaints: tuple[Any, ...] = ()


class UsageError(GpuprovError, code="usage", exit_code=EXIT_USAGE):
    """Arguments that cannot go together."""


class StackConflictError(GpuprovError, code="stack-conflict", exit_code=EXIT_USAGE):
    """What is asked for does not fit together, or is not in the catalog.

    Attributes:
        conflict: the proof, where there is one.
        keys: the keys of the profile that it is about, those that are changed most easily first.
        reason: the message, which begins with the key where it is about one alone (`of`).
    """

    conflict: Any = None

    def __init__(self, reason: str, *, hint: str, detail: str = "", keys: tuple[str, ...] = (), of: str = "") -> None:
        super().__init__(f"{of}: {reason}" if of else reason, hint=hint, detail=detail)
        self.keys = (of,) if of else keys
        self.reason = reason


class LockInvalidError(GpuprovError, code="lock-invalid", exit_code=EXIT_USAGE):
    """A lock file that is not one, or not of this profile."""


class LockStaleError(GpuprovError, code="lock-stale", exit_code=EXIT_USAGE):
    """The profile or the catalog has changed since the lock was written."""


class PackageVanishedError(GpuprovError, code="package-vanished", exit_code=EXIT_USAGE):
    """A lock pins packages to versions that their repositories no longer have."""


class IndexUnreachableError(GpuprovError, code="index-unreachable"):
    """The package index gave no answer that could be used."""


class FactsInvalidError(GpuprovError, code="facts-invalid", exit_code=EXIT_USAGE):
    """A file of facts, or of a fleet's figures, that is not one, or comes from another version."""


class EvidenceRefusedError(GpuprovError, code="evidence-refused", exit_code=EXIT_USAGE):
    """Evidence that proves nothing about the review it is shown for."""


class NameInvalidError(GpuprovError, code="name-invalid", exit_code=EXIT_USAGE):
    """An instance name that could not be a host name."""


# --- clouds -------------------------------------------------------------------------------------------------------


class CloudError(GpuprovError, code="cloud-failed"):
    """A cloud said no, or nothing; the base of every classified answer."""


class CredentialsMissingError(CloudError, code="credentials-missing"):
    """No credentials were found for the cloud."""


class CredentialsExpiredError(CloudError, code="credentials-expired"):
    """Credentials were found and are no longer valid."""


class PermissionRefusedError(CloudError, code="permission-refused"):
    """The cloud refused an action to these credentials."""


class ShortageError(CloudError):
    """A place gives no machine; another place may."""


class CapacityError(ShortageError, code="no-capacity"):
    """The place has no machine of this type now; the next zone may. `elsewhere` are the zones that the cloud itself named as having one."""

    def __init__(self, message: str, *, hint: str, detail: str = "", elsewhere: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint, detail=detail)
        self.elsewhere = elsewhere


class QuotaExceededError(ShortageError, code="quota-exceeded"):
    """The account may not have that many; another zone cannot help."""


class ThrottledError(CloudError, code="throttled"):
    """Too many calls; waiting helps."""


class CloudInvalidError(CloudError, code="cloud-invalid"):
    """The request itself is wrong, whoever asks and wherever."""


class CloudUnreachableError(CloudError, code="cloud-unreachable"):
    """No answer from the cloud's endpoint, or an answer that is not one."""


class ImageNotFoundError(CloudError, code="image-not-found"):
    """The image of the profile's system does not exist in this region."""


class CloudUnsupportedError(CloudError, code="cloud-unsupported", exit_code=EXIT_USAGE):
    """This release cannot launch there yet."""


class InstanceNotFoundError(CloudError, code="instance-not-found", exit_code=EXIT_USAGE):
    """No instance of that name carries our tags."""


class InstanceLostError(CloudError, code="instance-lost"):
    """The instance ended while it was waited for; `instance_id` says which one, where it is one of several."""

    always_detailed = True

    def __init__(self, message: str, *, hint: str, detail: str = "", instance_id: str = "") -> None:
        super().__init__(message, hint=hint, detail=detail)
        self.instance_id = instance_id


class DiskKeyRefusedError(CloudError, code="disk-key-refused"):
    """The cloud could not use the key that a place names for its disks."""


class NameTakenError(GpuprovError, code="name-taken"):
    """The name belongs to another launch, or another gpuprov is at work on it."""


class ProfileMismatchError(GpuprovError, code="profile-mismatch", exit_code=EXIT_USAGE):
    """An instance of this name exists and was launched from another profile."""


class PriceOverLimitError(GpuprovError, code="price-over-limit", exit_code=EXIT_USAGE):
    """The catalog's price is over the profile's limit at every place that could be launched in."""


class PriceUnknownError(GpuprovError, code="price-unknown", exit_code=EXIT_USAGE):
    """No usable place has a completely known price, and the profile does not accept an unknown one."""


# --- hosts --------------------------------------------------------------------------------------------------------


class HostUnreachableError(GpuprovError, code="host-unreachable", exit_code=EXIT_UNKNOWN):
    """Nothing answered as a host within the time allowed."""


class HostKeyUnknownError(GpuprovError, code="host-key-unknown", exit_code=EXIT_UNKNOWN):
    """The host's key is not known, so that nobody can say who answers."""


class HostKeyChangedError(GpuprovError, code="host-key-changed", exit_code=EXIT_UNKNOWN):
    """The host shows another key than the one that is known."""


class SshRefusedError(GpuprovError, code="ssh-refused", exit_code=EXIT_UNKNOWN):
    """The host answers and does not let us in."""


class ProbeFailedError(GpuprovError, code="probe-failed", exit_code=EXIT_UNKNOWN):
    """The host ran the probe and no facts came back."""


# --- converging ---------------------------------------------------------------------------------------------------


class PlaybookFailedError(GpuprovError, code="playbook-failed"):
    """A task of a role failed on the host; `kind` says how, in the words of `converge.failure.FailureKind`."""

    kind: str = "other"


class RoleUnknownError(GpuprovError, code="role-unknown", exit_code=EXIT_USAGE):
    """No role of that name."""


class BundleInvalidError(GpuprovError, code="bundle-invalid", exit_code=EXIT_USAGE):
    """A review bundle that is not one, or of which a part is not what its statement says."""


class BundleStaleError(GpuprovError, code="bundle-stale", exit_code=EXIT_USAGE):
    """What is asked for now differs from what the bundle fixes."""


class SignatureMissingError(GpuprovError, code="signature-missing", exit_code=EXIT_USAGE):
    """Fewer people have signed than the organisation's rules demand."""


class SignatureRefusedError(GpuprovError, code="signature-refused", exit_code=EXIT_USAGE):
    """A signature is not valid, or could not be made."""


class PolicyInvalidError(GpuprovError, code="policy-invalid", exit_code=EXIT_USAGE):
    """A file of the organisation's rules that is not valid; the message has all errors."""


class PolicyViolatedError(GpuprovError, code="policy-violated", exit_code=EXIT_USAGE):
    """What is asked for violates the organisation's rules, or cannot be shown to follow them."""


class RehearsalUnavailableError(GpuprovError, code="rehearsal-unavailable", exit_code=EXIT_USAGE):
    """This machine cannot run rehearsal hosts; says what to install or how to run."""


class RehearsalFailedError(GpuprovError, code="rehearsal-failed"):
    """The embedded cloud did not start, or a host of it did not boot."""


class InterruptedRunError(GpuprovError, code="interrupted", exit_code=EXIT_INTERRUPTED):
    """Ctrl-C; whatever exists is listed by `gpuprov ls` and removed by `gpuprov down`."""

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

    def __init__(self, message: str, *, hint: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number of things in words, such as `1 place` or `4 places`; `plural` for a noun that takes more than an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


# --- what is asked ------------------------------------------------------------------------------------------------


class FileRefusedError(GpuprovError):
    """The file system refused to write or read: it is full, read-only, or not permitted."""

    code = "file-refused"
    exit_code = EXIT_USAGE


class InternalError(GpuprovError):
    """An exception that nothing expected: a defect of gpuprov."""

    code = "internal"
    exit_code = EXIT_INTERNAL


class ProfileNotFoundError(GpuprovError):
    """No profile of that name, and no such file."""

    code = "profile-not-found"
    exit_code = EXIT_USAGE


class ProfileInvalidError(GpuprovError):
    """The file is not a valid profile; the message has the first errors, one a line, and `complaints` all of them."""

    code = "profile-invalid"
    exit_code = EXIT_USAGE
    complaints: tuple[Any, ...] = ()


class UsageError(GpuprovError):
    """Arguments that cannot go together."""

    code = "usage"
    exit_code = EXIT_USAGE


class StackConflictError(GpuprovError):
    """What is asked for does not fit together, or is not in the catalog.

    Attributes:
        conflict: the proof, where there is one.
        keys: the keys of the profile that it is about, those that are changed most easily first.
        reason: the message, which begins with the key where it is about one alone (`of`).
    """

    code = "stack-conflict"
    exit_code = EXIT_USAGE
    conflict: Any = None

    def __init__(self, reason: str, *, hint: str, detail: str = "", keys: tuple[str, ...] = (), of: str = "") -> None:
        super().__init__(f"{of}: {reason}" if of else reason, hint=hint, detail=detail)
        self.keys = (of,) if of else keys
        self.reason = reason


class LockInvalidError(GpuprovError):
    """A lock file that is not one, or not of this profile."""

    code = "lock-invalid"
    exit_code = EXIT_USAGE


class LockStaleError(GpuprovError):
    """The profile or the catalog has changed since the lock was written."""

    code = "lock-stale"
    exit_code = EXIT_USAGE


class PackageVanishedError(GpuprovError):
    """A lock pins packages to versions that their repositories no longer have."""

    code = "package-vanished"
    exit_code = EXIT_USAGE


class IndexUnreachableError(GpuprovError):
    """The package index gave no answer that could be used."""

    code = "index-unreachable"


class FactsInvalidError(GpuprovError):
    """A file of facts, or of a fleet's figures, that is not one, or comes from another version."""

    code = "facts-invalid"
    exit_code = EXIT_USAGE


class EvidenceRefusedError(GpuprovError):
    """Evidence that proves nothing about the review it is shown for."""

    code = "evidence-refused"
    exit_code = EXIT_USAGE


class NameInvalidError(GpuprovError):
    """An instance name that could not be a host name."""

    code = "name-invalid"
    exit_code = EXIT_USAGE


# --- clouds -------------------------------------------------------------------------------------------------------


class CloudError(GpuprovError):
    """A cloud said no, or nothing; the base of every classified answer."""

    code = "cloud-failed"


class CredentialsMissingError(CloudError):
    """No credentials were found for the cloud."""

    code = "credentials-missing"


class CredentialsExpiredError(CloudError):
    """Credentials were found and are no longer valid."""

    code = "credentials-expired"


class PermissionRefusedError(CloudError):
    """The cloud refused an action to these credentials."""

    code = "permission-refused"


class ShortageError(CloudError):
    """A place gives no machine; another place may."""


class CapacityError(ShortageError):
    """The place has no machine of this type now; the next zone may. `elsewhere` are the zones that the cloud itself named as having one."""

    code = "no-capacity"

    def __init__(self, message: str, *, hint: str, detail: str = "", elsewhere: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint, detail=detail)
        self.elsewhere = elsewhere


class QuotaExceededError(ShortageError):
    """The account may not have that many; another zone cannot help."""

    code = "quota-exceeded"


class ThrottledError(CloudError):
    """Too many calls; waiting helps."""

    code = "throttled"


class CloudInvalidError(CloudError):
    """The request itself is wrong, whoever asks and wherever."""

    code = "cloud-invalid"


class CloudUnreachableError(CloudError):
    """No answer from the cloud's endpoint, or an answer that is not one."""

    code = "cloud-unreachable"


class ImageNotFoundError(CloudError):
    """The image of the profile's system does not exist in this region."""

    code = "image-not-found"


class CloudUnsupportedError(CloudError):
    """This release cannot launch there yet."""

    code = "cloud-unsupported"
    exit_code = EXIT_USAGE


class InstanceNotFoundError(CloudError):
    """No instance of that name carries our tags."""

    code = "instance-not-found"
    exit_code = EXIT_USAGE


class InstanceLostError(CloudError):
    """The instance ended while it was waited for; `instance_id` says which one, where it is one of several."""

    code = "instance-lost"
    always_detailed = True

    def __init__(self, message: str, *, hint: str, detail: str = "", instance_id: str = "") -> None:
        super().__init__(message, hint=hint, detail=detail)
        self.instance_id = instance_id


class DiskKeyRefusedError(CloudError):
    """The cloud could not use the key that a place names for its disks."""

    code = "disk-key-refused"


class NameTakenError(GpuprovError):
    """The name belongs to another launch, or another gpuprov is at work on it."""

    code = "name-taken"


class ProfileMismatchError(GpuprovError):
    """An instance of this name exists and was launched from another profile."""

    code = "profile-mismatch"
    exit_code = EXIT_USAGE


class PriceOverLimitError(GpuprovError):
    """The catalog's price is over the profile's limit at every place that could be launched in."""

    code = "price-over-limit"
    exit_code = EXIT_USAGE


class PriceUnknownError(GpuprovError):
    """No usable place has a completely known price, and the profile does not accept an unknown one."""

    code = "price-unknown"
    exit_code = EXIT_USAGE


# --- hosts --------------------------------------------------------------------------------------------------------


class HostUnreachableError(GpuprovError):
    """Nothing answered as a host within the time allowed."""

    code = "host-unreachable"
    exit_code = EXIT_UNKNOWN


class HostKeyUnknownError(GpuprovError):
    """The host's key is not known, so that nobody can say who answers."""

    code = "host-key-unknown"
    exit_code = EXIT_UNKNOWN


class HostKeyChangedError(GpuprovError):
    """The host shows another key than the one that is known."""

    code = "host-key-changed"
    exit_code = EXIT_UNKNOWN


class SshRefusedError(GpuprovError):
    """The host answers and does not let us in."""

    code = "ssh-refused"
    exit_code = EXIT_UNKNOWN


class ProbeFailedError(GpuprovError):
    """The host ran the probe and no facts came back."""

    code = "probe-failed"
    exit_code = EXIT_UNKNOWN


# --- converging ---------------------------------------------------------------------------------------------------


class PlaybookFailedError(GpuprovError):
    """A task of a role failed on the host; `kind` says how, in the words of `converge.failure.FailureKind`."""

    code = "playbook-failed"
    kind: str = "other"


class RoleUnknownError(GpuprovError):
    """No role of that name."""

    code = "role-unknown"
    exit_code = EXIT_USAGE


class BundleInvalidError(GpuprovError):
    """A review bundle that is not one, or of which a part is not what its statement says."""

    code = "bundle-invalid"
    exit_code = EXIT_USAGE


class BundleStaleError(GpuprovError):
    """What is asked for now differs from what the bundle fixes."""

    code = "bundle-stale"
    exit_code = EXIT_USAGE


class SignatureMissingError(GpuprovError):
    """Fewer people have signed than the organisation's rules demand."""

    code = "signature-missing"
    exit_code = EXIT_USAGE


class SignatureRefusedError(GpuprovError):
    """A signature is not valid, or could not be made."""

    code = "signature-refused"
    exit_code = EXIT_USAGE


class PolicyInvalidError(GpuprovError):
    """A file of the organisation's rules that is not valid; the message has all errors."""

    code = "policy-invalid"
    exit_code = EXIT_USAGE


class PolicyViolatedError(GpuprovError):
    """What is asked for violates the organisation's rules, or cannot be shown to follow them."""

    code = "policy-violated"
    exit_code = EXIT_USAGE


class RehearsalUnavailableError(GpuprovError):
    """This machine cannot run rehearsal hosts; says what to install or how to run."""

    code = "rehearsal-unavailable"
    exit_code = EXIT_USAGE


class RehearsalFailedError(GpuprovError):
    """The embedded cloud did not start, or a host of it did not boot."""

    code = "rehearsal-failed"


class InterruptedRunError(GpuprovError):
    """Ctrl-C; whatever exists is listed by `gpuprov ls` and removed by `gpuprov down`."""

    code = "interrupted"
    exit_code = EXIT_INTERRUPTED

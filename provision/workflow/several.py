"""The same work on several hosts: each goes to its own end and gets a verdict of its own, whatever comes of the others."""

import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from provision.concurrent import each_to_its_end
from provision.errors import (
    EXIT_CLOUD_OR_PLAYBOOK,
    EXIT_FAILED_CHECK,
    EXIT_INTERNAL,
    EXIT_OK,
    EXIT_UNKNOWN,
    EXIT_USAGE,
    FileRefusedError,
    GpuprovError,
    InternalError,
    PlaybookFailedError,
)
from provision.structs import Struct
from provision.workflow.session import Say

Subject = TypeVar("Subject")
Result = TypeVar("Result")

# As for the findings of one host: a failure outweighs what is unknown.
_WORST_FIRST: Final = (EXIT_INTERNAL, EXIT_CLOUD_OR_PLAYBOOK, EXIT_USAGE, EXIT_FAILED_CHECK, EXIT_UNKNOWN, EXIT_OK)


def worst(codes: Iterable[int]) -> int:
    """The exit code of a command whose hosts have these."""
    return min(codes, key=lambda code: _WORST_FIRST.index(code) if code in _WORST_FIRST else -1, default=EXIT_OK)


def reason(error: GpuprovError) -> str:
    """The reason of a failure in one word, or in two where the code alone says too little."""
    kind = error.kind if isinstance(error, PlaybookFailedError) else ""
    return f"{error.code} ({kind})" if kind not in {"", "other"} else error.code


class Outcomes(Struct, Generic[Result]):
    """What came of each host: the results of those that are set up, and the error of each other one, by its name."""

    proven: list[Result]
    errors: dict[str, GpuprovError]


class HostsFailedError(GpuprovError, code="hosts-failed"):
    """The set-up failed on some of several hosts, each of which the message names with its own error; the others were set up.

    The exit code is that of the worst of these errors, until `weigh` adds what the checks of the others say.

    Attributes:
        proven: the results of the others.
        errors: by the name of the host.
    """

    def __init__(self, outcomes: Outcomes[Any], *, hint: str) -> None:
        self.proven, self.errors = list(outcomes.proven), dict(outcomes.errors)
        counts = Counter(map(reason, self.errors.values()))
        classes = ", ".join(f"{count} {each}" for each, count in counts.most_common())
        lines = [f"  {host}: error[{error.code}]: {error.message}\n    hint: {error.hint}" for host, error in self.errors.items()]
        whole = len(self.errors) + len(self.proven)
        message = "\n".join([f"the set-up failed on {len(self.errors)} of {whole} machines: {classes}", *lines])
        detail = "\n".join(f"{host}: {error.detail}" for host, error in self.errors.items() if error.detail)
        super().__init__(message, hint=hint, detail=detail)
        self.exit_code = worst(error.exit_code for error in self.errors.values())

    def weigh(self, codes: Iterable[int]) -> None:
        """Count the exit codes of the reports of the others too."""
        self.exit_code = worst([self.exit_code, *codes])

    def failed(self) -> list[dict[str, str]]:
        """The hosts that failed, for programs."""
        return [
            {
                "name": host,
                "code": error.code,
                "kind": error.kind if isinstance(error, PlaybookFailedError) else "",
                "message": error.message,
                "hint": error.hint,
            }
            for host, error in self.errors.items()
        ]


def on_each(
    subjects: Mapping[str, Subject],
    work: Callable[[Subject, Say], Result],
    *,
    on_host: Callable[[str, str], None],
    stop: threading.Event,
) -> Outcomes[Result]:
    """Do the work on every host at the same time, and say of each what it does and how it ended.

    Args:
        subjects: what is worked on, by the name of the host.
        work: gets its subject, and what tells of its steps.
        on_host: told the name of a host and what it does.
        stop: ends the work on all hosts; a Ctrl-C sets it.

    Raises:
        KeyboardInterrupt: it was stopped, and all of the work has ended.
    """

    def one(item: tuple[str, Subject]) -> Result:
        name, subject = item

        def say(step: str) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            on_host(name, step)

        try:
            result = work(subject, say)
        except KeyboardInterrupt as stopped:
            on_host(name, "its run may go on there: it could not be told" if stopped.args else "stopped")
            raise
        except Exception as raised:
            error = _understood(raised)
            on_host(name, f"error[{error.code}]: {error.message}")
            if error is raised:
                raise
            raise error from raised
        on_host(name, "done")
        return result

    ended = dict(zip(subjects, each_to_its_end(one, subjects.items(), stop), strict=True))
    errors: dict[str, GpuprovError] = {}
    for name, outcome in ended.items():
        if isinstance(outcome, GpuprovError):
            errors[name] = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
    return Outcomes([outcome for outcome in ended.values() if not isinstance(outcome, BaseException)], errors)


def _understood(error: Exception) -> GpuprovError:
    """The error of one host where none was expected: the verdicts on the others are not lost for it."""
    if isinstance(error, GpuprovError):
        return error
    if isinstance(error, OSError) and error.filename:
        msg = f"{error.filename}: {error.strerror}"
        return FileRefusedError(msg, hint="this is about a file on this machine: see its free space, and the rights of the file")
    first = (str(error).splitlines() or ["no message"])[0][:200]
    return InternalError(
        f"{type(error).__name__}: {first}",
        hint="this is a defect of gpuprov: report it with what `gpuprov -v` shows of this command",
        detail="".join(traceback.format_exception(error)),
    )

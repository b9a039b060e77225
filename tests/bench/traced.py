"""The command line as `python -m provision` runs it, which notes in a file when each phase begins and ends.

Run: python tests/bench/traced.py FILE WORDS…   (tests/bench/phases.py runs it, reads the file, and says what each phase is)

Nothing is changed in the package: functions on a phase's boundary are replaced from outside, when the module that has them was imported
and nobody has taken a name from it yet. Each event is written at once, since a launch is killed when the cloud has accepted it. It imports
nothing that Python has not imported by itself.
"""

import os
import sys
import time
from _thread import get_ident
from collections.abc import Callable
from typing import Any

# Module → (class or nothing, function, phase).
BOUNDARIES = {
    "provision.profile.load": [("", "load", "parse")],
    "provision.workflow.session": [("Session", "lock", "parse")],
    "provision.verify.facts.file": [("", "parse", "parse"), ("", "load", "parse")],
    "provision.verify.judge": [("", "judge", "judge")],
    "provision.report.text": [("", "render", "print")],
    "provision.cli.tables": [("", "table", "print")],
    "provision.clouds.gcp.api": [("GcpProjectApi", "call", "sdk")],
    "provision.clouds.gcp.client": [("", "client", "sdk")],
    "botocore.session": [("Session", "create_client", "sdk")],
    "botocore.client": [("BaseClient", "_make_api_call", "sdk")],
    "click.utils": [("", "echo", "print")],
    "rich.console": [("Console", "print", "print")],
    "selectors": [("EpollSelector", "select", "wait"), ("PollSelector", "select", "wait")],
    "socket": [("socket", "connect", "connect"), ("SocketIO", "readinto", "wait")],
    "subprocess": [("Popen", "wait", "wait")],
}
_FILE = -1
_importing: dict[int, int] = {}
_known = set[str]()


def note(phase: str, sign: str) -> None:
    """One event: the phase, + or -, the thread, the clock, and the CPU seconds of this thread; of the process where the whole is meant."""
    cpu_s = time.process_time() if phase in {"begin", "end"} else time.thread_time()
    os.write(_FILE, b"%s %s %d %.6f %.6f\n" % (phase.encode(), sign.encode(), get_ident(), time.time(), cpu_s))


def noted(function: Callable[..., Any], phase: str) -> Callable[..., Any]:
    """A function that does the same, and notes its beginning and its end."""

    def around(*args: Any, **kwargs: Any) -> Any:
        note(phase, "+")
        try:
            return function(*args, **kwargs)
        finally:
            note(phase, "-")

    return around


def replace(name: str) -> None:
    """Replace the boundary functions of a module that is there now; Popen of ssh begins the phase `connect`, whose end ssh itself tells."""
    if name not in BOUNDARIES or name in _known or name not in sys.modules:
        return
    _known.add(name)
    module = sys.modules[name]
    for owner, function, phase in BOUNDARIES[name]:
        at = getattr(module, owner) if owner else module
        setattr(at, function, noted(getattr(at, function), phase))
    if name == "subprocess":
        begin = module.Popen.__init__

        def popen(self: Any, args: Any, *rest: Any, **more: Any) -> None:
            if isinstance(args, (list, tuple)) and args and str(args[0]) == "ssh":
                note("ssh", "+")
            begin(self, args, *rest, **more)

        module.Popen.__init__ = popen


def watch_imports() -> None:
    """Note the outermost import of each thread, and replace boundary functions as their modules come."""
    bootstrap: Any = sys.modules["_frozen_importlib"]
    find = bootstrap._find_and_load

    def find_and_load(name: str, importer: Any) -> Any:
        thread = get_ident()
        depth = _importing[thread] = _importing.get(thread, 0) + 1
        if depth == 1:
            note("import", "+")
        try:
            return find(name, importer)
        finally:
            _importing[thread] -= 1
            if depth == 1:
                note("import", "-")
            replace(name)

    bootstrap._find_and_load = find_and_load


def main() -> None:
    global _FILE  # noqa: PLW0603 - written to from every thread, from the first event on
    _FILE = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    note("begin", "+")
    sys.argv = ["gpuprov", *sys.argv[2:]]
    sys.path[0] = os.getcwd()  # noqa: PTH109 - as `python -m` has it, and nothing is imported for it
    watch_imports()
    for name in list(BOUNDARIES):
        replace(name)  # what Python has imported by itself
    sleep = time.sleep
    time.sleep = noted(sleep, "wait")
    import provision.__main__

    try:
        provision.__main__.main()
    finally:
        note("end", "+")


if __name__ == "__main__":
    main()

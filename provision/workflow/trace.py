"""`trace` on a host: look, start, wait through lost connections, fetch, and leave nothing there."""

from __future__ import annotations

import asyncio
import datetime as dt
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from provision.errors import FileRefusedError, HostUnreachableError, InterruptedRunError, ProbeFailedError, UsageError
from provision.host.ssh import Target, execute
from provision.host.transfer import pull, push
from provision.structs import Struct
from provision.watch.trace import remote
from provision.watch.trace.remote import Surroundings, TraceOptions, TraceState

_ANSWER_S: Final = 60.0
_EXPORT_S: Final = 600.0
_EVERY_S: Final = 1.0
_LONGEST_S: Final = 15.0
_STARTING: Final = 20  # answers without a process: it is not going to start

Say = Callable[[str], object]


class Fetched(Struct):
    """What came back: the folder here, the files in it, and how the program ended: its code and its last line."""

    folder: Path
    files: tuple[Path, ...]
    status: int | None
    last: str = ""


def look(target: Target) -> Surroundings:
    """What the host has that a trace needs."""
    return remote.surroundings(_run(target, remote.LOOK))


def begin(target: Target, there: Surroundings, words: Sequence[str], options: TraceOptions, inside: str = ":") -> str:
    """Start a program under a profiler, after a line that puts its environment on PATH; returns the folder of its trace on the host.

    Raises:
        UsageError: a trace lies there already, or no profiler can run the program.
    """
    if there.folders:
        msg = f"a trace lies on {target.name} already"
        raise UsageError(
            msg, hint=f"`gpuprov trace {target.name}` goes on with it, `gpuprov trace {target.name} --stop` ends and removes it"
        )
    folder = remote.new_folder(there)
    # On this machine it runs where the user typed it, and in her environment.
    work, inside = (str(Path.cwd()), ":") if target.is_local else ("", inside)
    program = shlex.quote(words[0])
    found = f"{{ command -v {program} >/dev/null || {{ echo {program}: not found; (exit {remote.NO_PROGRAM}); }}; }}"
    line = f"{inside}\n{found} && {remote.traced(words, there, options, folder)}"
    return remote.started(_run(target, remote.start(line, there, folder, work)))


def wait(target: Target, folder: str, say: Say) -> TraceState:
    """Wait for the end of a trace, however often the connection is lost meanwhile.

    Raises:
        ProbeFailedError: the host has lost it.
        InterruptedRunError: the user ended the waiting; the trace goes on.
    """
    try:
        return asyncio.run(_wait(target, folder, say))
    except KeyboardInterrupt:
        msg = f"the trace on {target.name} goes on, in {folder}"
        hint = f"`gpuprov trace {target.name}` waits for it and fetches it, `gpuprov trace {target.name} --stop` ends and removes it"
        raise InterruptedRunError(msg, hint=hint) from None


async def _wait(target: Target, folder: str, say: Say) -> TraceState:
    pause_s, lost, starting = _EVERY_S, False, 0
    while True:
        try:
            done = await execute(target, remote.COMMAND, stdin=remote.ask(folder).encode(), timeout_s=_ANSWER_S)
        except HostUnreachableError as error:
            if not lost:
                say(f"{error.message}; the trace goes on there, and the connection is tried again")
            lost, pause_s = True, min(_LONGEST_S, pause_s * 2)
        else:
            if lost:
                say(f"{target.name} answers again")
            lost, pause_s = False, _EVERY_S
            now = remote.state(done.stdout)
            if now.state == "ended":
                return now
            starting = starting + 1 if now.state == "starting" else 0
            if now.state in {"killed", "gone"} or starting > _STARTING:
                msg = f"the trace on {target.name} was ended by something else: its process is gone"
                hint = f"the host may have been rebooted or short of memory; `gpuprov trace {target.name} --stop` removes what is left"
                raise ProbeFailedError(msg, hint=hint, detail="\n".join(now.said))
        await asyncio.sleep(pause_s)


def fetch(target: Target, folder: str, ended: TraceState, into: Path | None) -> Fetched:
    """Copy the files of a trace here, and remove them there.

    Raises:
        ProbeFailedError: there is no trace among them; the host keeps nothing either way.
    """
    here = into or Path(f"gpuprov-trace-{target.name}-{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}")
    try:
        here.mkdir(parents=True, exist_ok=True)
        if target.is_local:
            for name in ended.files:
                shutil.copyfile(Path(folder, name), here / name)
    except OSError as error:
        msg = f"cannot write {here}: {error.strerror}"
        raise FileRefusedError(msg, hint=f"`gpuprov trace {target.name} --save FOLDER` fetches it into another folder") from error
    if not target.is_local and ended.files:
        pull(target, [f"{folder}/{name}" for name in ended.files], f"{here}/", delete=False, dry_run=False)
    end(target, folder)
    files = tuple(here / name for name in remote.FILES if name in ended.files)
    if not any(file.name != "output" for file in files):
        where = "this folder" if target.is_local else f"the home folder of {target.name}"
        reasons = {
            remote.NO_TORCH: ("its Python has no PyTorch", "run it with `with-pytorch python …`, or add nsys to `stack.profilers`"),
            remote.NO_SCRIPT: (f"there is no such script in {where}", "give the whole path of the script"),
            remote.NO_PROGRAM: ("there is no such program", f"`gpuprov apply {target.name}` sets up what `with-pytorch python …` runs in"),
        }
        otherwise = f"see {here / 'output'} for what it said; it may have ended before the --delay was over"
        why, hint = reasons.get(ended.status or 0, (f"the program ended with {ended.status}", otherwise))
        msg = f"no trace came of it: {why}{f' ({ended.said[-1]})' if ended.said else ''}"
        raise ProbeFailedError(msg, hint=hint, detail="\n".join(ended.said))
    return Fetched(here, files, ended.status, ended.said[-1] if ended.said else "")


def exported(target: Target, report: Path) -> Path:
    """Let a host's nsys export a report that lies here; returns the export, beside the report.

    Raises:
        UsageError: the host has no nsys.
        ProbeFailedError: its nsys cannot read the report.
    """
    there = look(target)
    if not there.nsys:
        msg = f"there is no nsys on {target.name}"
        raise UsageError(msg, hint="add nsys to `stack.profilers` of the profile, then `gpuprov apply`; or export it where it was made")
    folder, export = remote.new_folder(there), report.with_suffix(".sqlite")
    _run(target, remote.make(folder))
    try:
        if target.is_local:
            shutil.copyfile(report, Path(folder, "trace.nsys-rep"))
        else:
            push(target, [str(report)], f"{folder}/trace.nsys-rep", delete=False, dry_run=False)
        ended = remote.state(_run(target, remote.export(there, folder), timeout_s=_EXPORT_S))
        if "trace.sqlite" not in ended.files:
            msg = f"nsys on {target.name} cannot read {report}"
            raise ProbeFailedError(msg, hint="a report needs an nsys that is as new as the one that wrote it", detail="\n".join(ended.said))
        if target.is_local:
            shutil.copyfile(Path(folder, "trace.sqlite"), export)
        else:
            pull(target, [f"{folder}/trace.sqlite"], str(export), delete=False, dry_run=False)
    except OSError as error:
        msg = f"cannot copy {report}: {error.strerror}"
        raise FileRefusedError(msg, hint="see that it can be read, and that its folder can be written to") from error
    finally:
        end(target, folder)
    return export


def end(target: Target, folder: str) -> None:
    """End a trace, whatever its state, and remove its folder."""
    _run(target, remote.stop(folder))


def _run(target: Target, script: str, timeout_s: float = _ANSWER_S) -> bytes:
    return asyncio.run(execute(target, remote.COMMAND, stdin=script.encode(), timeout_s=timeout_s)).stdout

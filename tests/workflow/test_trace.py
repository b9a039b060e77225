"""A trace on a host, from its start to what is left there: this machine with a stand-in for nsys, and a connection that is lost."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from provision.errors import InterruptedRunError, ProbeFailedError, UsageError
from provision.host.ssh import LOCALHOST, Target
from provision.structs import replace
from provision.watch.trace import remote
from provision.watch.trace.remote import Surroundings, TraceOptions
from provision.workflow import trace
from tests.waiting import until

# Runs the program as nsys would, and writes a report; the export is a copy of what the test prepared.
NSYS = """#!/bin/sh
if [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version 2026.2.1"; exit; fi
if [ "$1" = export ]; then cp "$GPUPROV_TEST_EXPORT" trace.sqlite; exit; fi
shift
printf '%s\\n' "$@" >"$GPUPROV_TEST_ARGV"
while [ "$1" != -o ]; do shift; done
report=$2; shift 4
"$@"; code=$?
echo report >"$report.nsys-rep"; exit $code
"""
# What stands between: it fails as OpenSSH does while the file `lost` lies there, and else runs the command here.
SSH = """#!/bin/sh
if [ -f {folder}/lost ]; then
  n=$(cat {folder}/lost)
  [ "$n" -gt 0 ] && echo $((n - 1)) >{folder}/lost && echo "ssh: connect to host: Connection refused" >&2 && exit 255
fi
while :; do case $1 in -F|-o) shift 2;; -T|--) shift;; *) break;; esac; done
shift
exec /bin/sh -c "$*"
"""
OPTIONS = TraceOptions(duration_s=0)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what the host has: its temporary files in `tmp`, its tools in `bin`."""
    for name in ("tmp", "bin", "home"):
        (tmp_path / name).mkdir()
    for name, text in (("nsys", NSYS), ("ssh", SSH.format(folder=tmp_path))):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "export").write_text("exported")
    for name, value in (("TMPDIR", "tmp"), ("HOME", "home"), ("GPUPROV_TEST_EXPORT", "export"), ("GPUPROV_TEST_ARGV", "argv")):
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(trace, "_EVERY_S", 0.05)
    monkeypatch.setattr(trace, "_LONGEST_S", 0.1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def left(host: Path) -> list[Path]:
    return list((host / "tmp").iterdir())


def quiet(_: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("session", ["tmux", "nohup"])
def test_a_program_is_traced_as_it_was_typed_and_nothing_is_left(host: Path, session: str) -> None:
    there = trace.look(LOCALHOST)
    assert there.nsys_version == "NVIDIA Nsight Systems version 2026.2.1"
    if session == "nohup":
        there = replace(there, tmux="")
    program = 'import sys; print("to the output"); open("argv2", "w").write("|".join(sys.argv[1:])); sys.exit(3)'
    words = [sys.executable, "-c", program, "a b", "$(touch evil)", "'; touch evil; '", "@FOLDER@"]
    folder = trace.begin(LOCALHOST, there, words, TraceOptions(delay_s=2, duration_s=5))
    fetched = trace.fetch(LOCALHOST, folder, trace.wait(LOCALHOST, folder, quiet), None)
    assert (host / "argv2").read_text() == "|".join(words[3:])  # where it was typed
    assert not list(host.rglob("evil"))
    assert (fetched.status, fetched.last) == (3, "to the output")
    assert [path.name for path in fetched.files] == ["trace.sqlite", "trace.nsys-rep", "output"]
    assert fetched.files[0].read_text() == "exported"
    assert "to the output" in fetched.files[2].read_text()
    asked = (host / "argv").read_text().splitlines()
    assert {"--sample=none", "--cpuctxsw=none", "--delay=2", "--duration=5", "--cuda-graph-trace=graph"} <= set(asked)
    assert left(host) == []


def test_a_script_that_is_not_where_it_runs_is_said(host: Path) -> None:
    for target, where in ((LOCALHOST, "this folder"), (Target("far", "far"), "the home folder of far")):
        there = replace(trace.look(target), nsys="")
        folder = trace.begin(target, there, [sys.executable, "nosuch.py"], OPTIONS)
        with pytest.raises(ProbeFailedError, match=f"no such script in {where}"):
            trace.fetch(target, folder, trace.wait(target, folder, quiet), host / "kept")
        assert left(host) == []


@pytest.mark.parametrize("profiler", ["nsys", ""])
def test_a_program_that_is_not_there_is_named_with_what_installs_it(host: Path, profiler: str) -> None:
    target = Target("far", "far")
    there = trace.look(target)
    folder = trace.begin(target, there if profiler else replace(there, nsys=""), ["python9.99", "train.py"], OPTIONS)
    with pytest.raises(ProbeFailedError, match=r"there is no such program \(python9.99: not found\)") as missing:
        trace.fetch(target, folder, trace.wait(target, folder, quiet), host / "kept")
    assert missing.value.hint == "`gpuprov apply far` sets up what `with-pytorch python …` runs in"
    assert not (host / "argv").exists()  # no profiler was started for it


def test_a_program_runs_in_its_environment_on_a_host_and_as_typed_here(host: Path) -> None:
    for target, found in ((Target("far", "far"), "its own"), (LOCALHOST, "as typed")):
        for folder, text in (("bin", "as typed"), ("venv", "its own")):
            (host / folder).mkdir(exist_ok=True)
            (host / folder / "python9.99").write_text(f"#!/bin/sh\necho {text}\n")
            (host / folder / "python9.99").chmod(0o755)
        begun = trace.begin(target, trace.look(target), ["python9.99"], OPTIONS, f"PATH={host}/venv:$PATH")
        assert trace.fetch(target, begun, trace.wait(target, begun, quiet), host / "kept").last == found


def test_a_lost_connection_loses_nothing(host: Path) -> None:
    target = Target("far", "far")
    there = trace.look(target)
    folder = trace.begin(target, there, ["sh", "-c", "pwd > where; sleep 0.2"], OPTIONS)
    (host / "lost").write_text("4")
    said: list[str] = []
    ended = trace.wait(target, folder, said.append)
    assert [line.rpartition("far")[1] for line in said] == ["far", "far"]
    assert "answers again" in said[-1]
    fetched = trace.fetch(target, folder, ended, host / "kept")
    assert [path.name for path in fetched.files] == ["trace.sqlite", "trace.nsys-rep", "output"]
    assert (host / "kept" / "trace.sqlite").read_text() == "exported"
    assert (host / "home" / "where").read_text() == f"{host / 'home'}\n"
    assert left(host) == []


def test_who_comes_back_finds_the_trace_and_who_starts_another_is_told(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = trace.begin(LOCALHOST, trace.look(LOCALHOST), ["sleep", "0.1"], OPTIONS)

    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trace, "execute", interrupted)
        with pytest.raises(InterruptedRunError) as ended:
            trace.wait(LOCALHOST, folder, quiet)
    assert "--stop" in ended.value.hint
    again = trace.look(LOCALHOST)
    assert again.folders == (folder,)
    with pytest.raises(UsageError, match="lies on localhost already"):
        trace.begin(LOCALHOST, again, ["true"], OPTIONS)
    trace.fetch(LOCALHOST, folder, trace.wait(LOCALHOST, folder, quiet), None)
    assert left(host) == []


@pytest.mark.parametrize("session", ["tmux", "nohup"])
def test_a_trace_that_is_stopped_ends_with_all_that_it_started(host: Path, session: str) -> None:
    there = trace.look(LOCALHOST)
    there = replace(there, tmux="") if session == "nohup" else there
    deaf = "trap '' TERM; " if session == "nohup" else ""
    script = f"{deaf}echo $$ >pids; sleep 300 & echo $! >>pids; wait"
    folder = trace.begin(LOCALHOST, there, ["/bin/sh", "-c", script], OPTIONS)
    pids = host / "pids"
    until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    trace.end(LOCALHOST, folder)
    assert not [pid for pid in pids.read_text().split() if alive(int(pid))]
    assert left(host) == []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_a_number_that_another_process_has_now_is_left_alone(host: Path) -> None:
    folder = host / "tmp" / "gpuprov-trace.0a1b2c3d"
    folder.mkdir()
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as other:
        (folder / "pid").write_text(str(other.pid))
        trace.end(LOCALHOST, str(folder))
        assert other.poll() is None
        other.kill()
    assert left(host) == []


def test_a_trace_that_something_else_ended_is_told(host: Path) -> None:
    folder = trace.begin(LOCALHOST, trace.look(LOCALHOST), ["sleep", "300"], OPTIONS)
    pid = until(lambda: (Path(folder) / "pid").exists() and (Path(folder) / "pid").read_text().strip())
    os.killpg(int(pid), signal.SIGKILL)
    with pytest.raises(ProbeFailedError, match="its process is gone") as gone:
        trace.wait(LOCALHOST, folder, quiet)
    assert "--stop" in gone.value.hint
    trace.end(LOCALHOST, folder)
    assert left(host) == []


def test_a_program_without_a_trace_leaves_its_words_here_and_nothing_there(host: Path) -> None:
    (host / "bin" / "nsys").write_text("#!/bin/sh\necho 'cannot attach'; exit 9\n")
    there = replace(trace.look(LOCALHOST), nsys=str(host / "bin" / "nsys"))
    folder = trace.begin(LOCALHOST, there, ["true"], OPTIONS)
    with pytest.raises(ProbeFailedError, match=r"ended with 9 \(cannot attach\)"):
        trace.fetch(LOCALHOST, folder, trace.wait(LOCALHOST, folder, quiet), host / "kept")
    assert (host / "kept" / "output").read_text() == "cannot attach\n"
    assert left(host) == []


@pytest.mark.parametrize("far", [False, True])
def test_a_report_is_exported_by_the_hosts_nsys(host: Path, *, far: bool) -> None:
    report = host / "old.nsys-rep"
    report.write_text("report")
    target = Target("far", "far") if far else LOCALHOST
    assert trace.exported(target, report).read_text() == "exported"
    assert left(host) == []
    (host / "export").unlink()
    with pytest.raises(ProbeFailedError, match="cannot read"):
        trace.exported(target, report)
    assert left(host) == []


def test_the_waiting_is_over_when_the_trace_never_starts(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_STARTING", 2)
    folder = host / "tmp" / "gpuprov-trace.00000000"
    folder.mkdir()
    with pytest.raises(ProbeFailedError):
        asyncio.run(trace._wait(LOCALHOST, str(folder), quiet))


# --- what is run -----------------------------------------------------------------------------------------------------


def words(line: str) -> list[str]:
    return shlex.split(line)


def test_without_nsys_a_python_program_goes_through_the_wrapper() -> None:
    for typed, flags in ((["python3", "a.py", "--x"], []), (["/venv/bin/python3.12", "-u", "-m", "train", "b c"], ["-u"])):
        line = words(remote.traced(typed, Surroundings(), TraceOptions(1, 2), "/f"))
        assert line == [typed[0], *flags, "/f/torch_trace.py", "/f/trace.json.gz", "1", "2", *typed[1 + len(flags) :]]
        assert words(remote.traced(["with-pytorch", *typed], Surroundings(), TraceOptions(1, 2), "/f")) == ["with-pytorch", *line]


@pytest.mark.parametrize("typed", [["./a.out"], ["bash", "a.py"], ["python3"], ["python3", "-c", "pass"], ["python3", "a.sh"]])
def test_what_the_wrapper_cannot_run_is_refused_with_the_way_out(typed: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        remote.traced(typed, Surroundings(), OPTIONS, "/f")
    assert "stack.profilers" in refused.value.hint
    assert refused.value.message.endswith(f"`python -m MODULE` only, not {shlex.join(typed)!a}")


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (TraceOptions(capture="cudaProfilerApi"), "--capture-range=cudaProfilerApi"),
        (TraceOptions(capture="epoch 3"), "--nvtx-capture=epoch 3"),
        (TraceOptions(graph_nodes=True), "--cuda-graph-trace=node"),
    ],
)
def test_options_reach_nsys(options: TraceOptions, asked: str) -> None:
    there = Surroundings(nsys="/opt/n sys")
    line = words(remote.traced(["a"], there, options, "/f"))
    assert line[0] == "/opt/n sys"
    assert asked in line
    with pytest.raises(UsageError, match="no nsys"):
        remote.traced(["python3", "a.py"], Surroundings(), options, "/f")


def test_ncu_measures_one_launch_of_the_kernel() -> None:
    line = words(remote.traced(["a"], Surroundings(ncu="/x/ncu"), TraceOptions(ncu="gemm|nv jet"), "/f"))
    assert (line[0], line[-1]) == ("/x/ncu", "a")
    assert line[line.index("-k") + 1] == "regex:gemm|nv jet"
    assert line[line.index("--launch-count") + 1] == "1"
    with pytest.raises(UsageError, match="no ncu"):
        remote.traced(["a"], Surroundings(), TraceOptions(ncu="gemm"), "/f")


def test_the_look_says_what_mends_each_fault() -> None:
    answer = b"free_kb=1000\nadmin_only=1\nuid=1000\ngpus=2\nholders=nv-hostengine nv-hostengine \n"
    answer += b"folder=/var/gpuprov-trace.0a1b2c3d\nfolder=/etc\n"
    there = remote.surroundings(b"motd = hello\n\xff\n" + answer)
    assert there.folders == ("/var/gpuprov-trace.0a1b2c3d",)
    said = remote.remarks(there, "box")
    fixes = " ".join(each.fix for each in said)
    assert all(word in fixes for word in ("stack.profilers", "gpu.counters: all-users", "dcgmi profile --pause", "--duration", "--stop"))
    fine = remote.surroundings(b"nsys=/n\ntmux=/t\nfree_kb=99999999\nadmin_only=0\ngpus=1\nuid=0\n")
    assert [each for each in remote.remarks(fine, "box") if each.fix] == []


def test_a_host_that_starts_nothing_is_no_folder() -> None:
    with pytest.raises(ProbeFailedError):
        remote.started(b"folder=/etc\n")
    assert remote.state(b"file=../../etc/passwd\nfile=output\nstate=ended\nstatus=x\n") == remote.TraceState("ended", None, ("output",))

"""What a host's shell is told for a trace: look around, start the program so that it outlives the connection, ask how it goes, clean up.

Everything lies in one private folder of the host, which is removed in the end. Values enter a script quoted, and the scripts travel on
standard input, so that no login shell reads them.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from provision.errors import ProbeFailedError, UsageError
from provision.structs import MutableStruct, Struct, field

COMMAND: Final = "exec /bin/sh -s"
FILES: Final = ("trace.sqlite", "trace.nsys-rep", "trace.json.gz", "ncu.csv", "output")
_WRAPPER: Final = Path(__file__).parent / "sent" / "torch_trace.py"
_FOLDER: Final = re.compile(r"/[^\0\n]{0,200}/gpuprov-trace\.[A-Za-z0-9]{8}")
_PYTHON: Final = re.compile(r"python[0-9.]*")
_FLAGS: Final = {"-u", "-B", "-O", "-OO", "-E", "-s", "-I"}
_SHOWN: Final = 60  # characters of a command in a message
_LEAST_FREE_KB: Final = 2 << 20
NO_TORCH: Final = 97
NO_SCRIPT: Final = 98
NO_PROGRAM: Final = 127
SECTIONS: Final = ("SpeedOfLight", "SpeedOfLight_RooflineChart", "SpeedOfLight_HierarchicalTensorRooflineChart", "Occupancy")
METRICS: Final = (
    *("gpu__time_duration.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    *("dram__bytes.sum", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)

LOOK: Final = r"""
base=${TMPDIR:-/tmp}
say() { printf '%s=%s\n' "$1" "$(printf '%s' "$2" | tr '\n' ' ')"; }
tool() {
  command -v "$1" 2>/dev/null && return
  for p in /usr/local/cuda/bin/"$1" /usr/local/cuda-*/bin/"$1" /opt/nvidia/nsight-systems/*/bin/"$1" /opt/nvidia/nsight-compute/*/"$1"; do
    [ -x "$p" ] && printf '%s\n' "$p" && return
  done
}
nsys=$(tool nsys); say nsys "$nsys"; [ -z "$nsys" ] || say nsys_version "$("$nsys" --version 2>/dev/null | head -n 1)"
ncu=$(tool ncu); say ncu "$ncu"; say tmux "$(command -v tmux 2>/dev/null)"
say free_kb "$(df -Pk "$base" 2>/dev/null | awk 'NR == 2 { print $4 }')"
say gpus "$(ls -d /dev/nvidia[0-9]* 2>/dev/null | wc -l)"
say admin_only "$(sed -n 's/^RmProfilingAdminOnly: *//p' /proc/driver/nvidia/params 2>/dev/null)"
hold() { for p in /proc/[0-9]*; do read -r c <"$p/comm" && case $c in nv-hostengine|dcgm-exporter|nsys|ncu) echo "$c";; esac; done; }
say holders "$(hold 2>/dev/null)"
for f in "$base"/gpuprov-trace.*; do [ -d "$f" ] && [ ! -L "$f" ] && [ -O "$f" ] && say folder "$f"; done
say uid "$(id -u)"; say base "$base"
"""
_STATE: Final = r"""
[ -d "$folder" ] || { echo state=gone; exit; }
cd "$folder" || exit
ended() { echo state=ended; echo "status=$(cat status)"; }
if [ -f status ]; then ended
elif [ -f pid ]; then
  now=$(sed 's/.*) //' "/proc/$(cat pid)/stat" 2>/dev/null)
  # It may have ended since the first look: its status is there before it is gone.
  case $now in ""|Z*) if [ -f status ]; then ended; else echo state=killed; fi;; *) echo state=running;; esac
else echo state=starting; fi
for f in trace.sqlite trace.nsys-rep trace.json.gz ncu.csv output; do [ -f "$f" ] && echo "file=$f"; done
[ ! -f output ] || tail -c 1500 output | tail -n 5 | sed 's/^/said=/'
"""
_STOP: Final = r"""
[ -d "$folder" ] || exit 0
if [ -f "$folder/pid" ]; then
  pid=$(cat "$folder/pid")
  members() { cat /proc/[0-9]*/stat 2>/dev/null | awk -v s="$pid" '{ pid = $1; sub(/.*\) /, ""); if ($4 == s && $1 != "Z") print pid }'; }
  # A number is given again after a while: what is not ours is left alone.
  if [ -r "/proc/$pid/cmdline" ] && ! grep -qF "$folder/run.sh" "/proc/$pid/cmdline"; then members() { :; }; fi
  for signal in TERM KILL; do
    found=$(members); [ -n "$found" ] || break
    kill -s $signal $found 2>/dev/null
    for wait in 1 2 3 4 5 6 7 8 9 10; do [ -n "$(members)" ] || break; sleep 0.3; done
  done
fi
rm -rf "$folder"
"""


class Surroundings(Struct):
    """What a host said of itself. `folders` are the traces that run there, or that nobody has fetched."""

    nsys: str = ""
    nsys_version: str = ""
    ncu: str = ""
    tmux: str = ""
    free_kb: int | None = None
    gpus: int = 0
    admin_only: bool | None = None
    holders: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    is_root: bool = False
    base: str = ""


class Remark(Struct):
    """A line of the look before a trace, and what to do where it is not as it should be."""

    text: str
    fix: str = ""


class TraceState(Struct):
    """How a trace on a host goes: `starting`, `running`, `ended`, `killed` or `gone`."""

    state: str
    status: int | None = None
    files: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


class TraceOptions(Struct):
    """How a program is traced; the defaults need no permission.

    Attributes:
        capture: empty, `cudaProfilerApi`, or the name of an NVTX range: only that is traced.
        graph_nodes: whether the kernels inside CUDA graphs are told apart, which costs time.
        ncu: a regular expression of a kernel's name: that kernel is measured instead.
    """

    delay_s: float = 0
    duration_s: float = 30
    capture: str = ""
    graph_nodes: bool = False
    ncu: str = ""


class _Said(MutableStruct):
    values: dict[str, list[str]] = field(default_factory=dict)

    def one(self, key: str) -> str:
        return self.values.get(key, [""])[0]


def _said(stdout: bytes) -> _Said:
    """Lines of `key=value`; whatever else a host prints is not looked at."""
    said = _Said()
    for line in stdout[:65_536].decode(errors="replace").splitlines():
        key, equals, value = line.partition("=")
        if equals and key.isidentifier():
            said.values.setdefault(key, []).append(value.strip()[:400])
    return said


def surroundings(stdout: bytes) -> Surroundings:
    """What `LOOK` printed."""
    said = _said(stdout)
    free, admin = said.one("free_kb"), said.one("admin_only")
    return Surroundings(
        nsys=said.one("nsys"),
        nsys_version=said.one("nsys_version"),
        ncu=said.one("ncu"),
        tmux=said.one("tmux"),
        free_kb=int(free) if free.isdecimal() else None,
        gpus=int(said.one("gpus")) if said.one("gpus").isdecimal() else 0,
        admin_only={"0": False, "1": True}.get(admin),
        holders=tuple(dict.fromkeys(said.one("holders").split())),
        folders=tuple(folder for folder in said.values.get("folder", []) if _FOLDER.fullmatch(folder)),
        is_root=said.one("uid") == "0",
        base=said.one("base") if said.one("base").startswith("/") else "",
    )


def remarks(there: Surroundings, host: str) -> list[Remark]:
    """What stands in the way of a trace, with the line that mends it."""
    apply = f"then `gpuprov apply {host}`"
    nsys = Remark(f"nsys is {there.nsys} ({there.nsys_version or 'of an unknown version'})")
    if not there.nsys:
        nsys = Remark("no nsys: PyTorch's profiler is used, for Python programs", f"add nsys to `stack.profilers` of the profile, {apply}")
    no_gpu = Remark("no GPU: a trace would show only what the host does", "trace on a host with a GPU")
    found = [nsys, Remark("1 GPU" if there.gpus == 1 else f"{there.gpus} GPUs") if there.gpus else no_gpu]
    if not there.tmux:
        found.append(Remark("no tmux: the program runs under nohup, and outlives a lost connection as well"))
    if there.free_kb is not None and there.free_kb < _LEAST_FREE_KB:
        found.append(
            Remark(
                f"{there.free_kb >> 10} MiB are free for the trace",
                "make room, or set TMPDIR to a larger disk, or give a short --duration",
            )
        )
    if there.admin_only and not there.is_root:
        fix = f"set `gpu.counters: all-users` in the profile, {apply}; a trace without --ncu needs none"
        found.append(Remark("counters are for root alone, so that --ncu fails", fix))
    if there.holders:
        fix = "`dcgmi profile --pause` there, and `--resume` afterwards; a trace without --ncu is not hindered"
        found.append(Remark(f"{', '.join(there.holders)} may hold the profiler", fix))
    found += [
        Remark(f"a trace lies in {folder}", f"`gpuprov trace {host}` fetches it, `--stop` ends and removes it") for folder in there.folders
    ]
    return found


def traced(words: Sequence[str], there: Surroundings, options: TraceOptions, folder: str) -> str:
    """The line that runs the program under a profiler; each of its words is quoted.

    Raises:
        UsageError: no profiler of the host can run it.
    """
    if options.ncu:
        if not there.ncu:
            msg = "there is no ncu on the host"
            raise UsageError(msg, hint="add ncu to `stack.profilers` of the profile, then `gpuprov apply`")
        sections = [part for section in SECTIONS for part in ("--section", section)]
        kernel = ["-k", f"regex:{options.ncu}", "--launch-skip", "5", "--launch-count", "1", "--metrics", ",".join(METRICS)]
        log = ["--csv", "--page", "raw", "--log-file", f"{folder}/ncu.csv"]
        return shlex.join([there.ncu, "--target-processes", "all", *sections, *kernel, *log, *words])
    if there.nsys:
        graphs = "node" if options.graph_nodes else "graph"
        argv = [
            there.nsys,
            "profile",
            "-t",
            "cuda,nvtx,osrt,cudnn,cublas",
            "--sample=none",
            "--cpuctxsw=none",
            f"--cuda-graph-trace={graphs}",
        ]
        if options.capture == "cudaProfilerApi":
            argv += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
        elif options.capture:
            argv += ["--capture-range=nvtx", f"--nvtx-capture={options.capture}", "--capture-range-end=stop"]
        argv += [f"--delay={options.delay_s:g}"] if options.delay_s and not options.capture else []
        argv += [f"--duration={options.duration_s:g}"] if options.duration_s else []
        return shlex.join([*argv, "-o", f"{folder}/trace", "-f", "true", *words])
    return _by_torch(words, options, folder)


def _by_torch(words: Sequence[str], options: TraceOptions, folder: str) -> str:
    if len(words) > 1 and words[0].startswith("with-"):
        return f"{shlex.quote(words[0])} {_by_torch(words[1:], options, folder)}"
    fix = "add nsys to `stack.profilers` of the profile, then `gpuprov apply`"
    if options.capture or options.graph_nodes:
        msg = "there is no nsys on the host, and PyTorch's profiler knows neither --capture nor --graph-nodes"
        raise UsageError(msg, hint=fix)
    flags = 1
    while flags < len(words) and words[flags] in _FLAGS:
        flags += 1
    program = words[flags:]
    of_python = bool(_PYTHON.fullmatch(words[0].rpartition("/")[2])) and bool(program)
    if not of_python or not (program[0] == "-m" or program[0].endswith(".py")):
        command = shlex.join(words)
        shown = ascii(command if len(command) <= _SHOWN else command[:_SHOWN] + "…")
        msg = f"there is no nsys on the host, and PyTorch's profiler runs `python FILE.py` and `python -m MODULE` only, not {shown}"
        raise UsageError(msg, hint=fix)
    times = [f"{options.delay_s:g}", f"{options.duration_s:g}"]
    return shlex.join([*words[:flags], f"{folder}/torch_trace.py", f"{folder}/trace.json.gz", *times, *program])


def new_folder(there: Surroundings) -> str:
    """A folder for one trace: its name is new, and whoever made it before makes the start fail."""
    return f"{there.base or '/tmp'}/gpuprov-trace.{secrets.token_hex(4)}"  # noqa: S108 - made by mkdir, which takes no folder that is there


def start(line: str, there: Surroundings, folder: str, work: str = "") -> str:
    """The script that starts a traced line and prints the trace's folder once it runs.

    Args:
        line: the line of `traced`, and what comes before it.
        there: what stands on the host.
        folder: of the trace.
        work: the folder in which the program runs; empty for the login's home.
    """
    end = f"end-{secrets.token_hex(8)}"
    export = ""
    if there.nsys:
        nsys = shlex.quote(there.nsys)
        export = f"[ ! -f trace.nsys-rep ] || {nsys} export --type sqlite -f true -o trace.sqlite trace.nsys-rep >>output 2>&1 </dev/null\n"
    where = shlex.quote(work) if work else '"$HOME"'
    body = (
        f'folder={shlex.quote(folder)}\necho $$ >"$folder/pid.part"; mv "$folder/pid.part" "$folder/pid"\ncd {where} || exit\n'
        f'{{ {line}\n}} >"$folder/output" 2>&1 </dev/null\ncode=$?\ncd "$folder" || exit\n{export}'
        'echo "$code" >status.part; mv status.part status\n'
    )
    keep = 'setsid nohup /bin/sh "$folder/run.sh" >/dev/null 2>&1 </dev/null &'
    if there.tmux:
        session = f'{shlex.quote(there.tmux)} -S "$folder/tmux" new-session -d /bin/sh "$folder/run.sh"'
        keep = f"{session} </dev/null >/dev/null 2>&1 || {{ {keep} }}"
    return (
        f'umask 077\nfolder={shlex.quote(folder)}\nmkdir -m 700 "$folder" || exit 1\n'
        f"cat >\"$folder/torch_trace.py\" <<'{end}'\n{_WRAPPER.read_text(encoding='utf-8')}\n{end}\n"
        f"cat >\"$folder/run.sh\" <<'{end}'\n{body}{end}\n"
        f"{keep}\nprintf 'folder=%s\\n' \"$folder\"\n"
    )


def started(stdout: bytes) -> str:
    """The folder that the script of `start` printed.

    Raises:
        ProbeFailedError: it printed none.
    """
    folder = _said(stdout).one("folder")
    if not _FOLDER.fullmatch(folder):
        msg = "the host did not start the trace"
        raise ProbeFailedError(msg, hint="see whether its TMPDIR or /tmp can be written to and has room")
    return folder


def make(folder: str) -> str:
    """The script that makes a folder and nothing more."""
    return f"mkdir -m 700 {shlex.quote(folder)}\n"


def export(there: Surroundings, folder: str) -> str:
    """The script that exports the report in a folder, and tells what became of it."""
    line = f"{shlex.quote(there.nsys)} export --type sqlite -f true -o trace.sqlite trace.nsys-rep >output 2>&1 </dev/null"
    return f'folder={shlex.quote(folder)}\ncd "$folder" && {line}\n{_STATE}'


def ask(folder: str) -> str:
    """The script that tells how a trace goes."""
    return f"folder={shlex.quote(folder)}\n{_STATE}"


def state(stdout: bytes) -> TraceState:
    """What that script printed."""
    said = _said(stdout)
    status = said.one("status")
    return TraceState(
        state=said.one("state") or "gone",
        status=int(status) if status.isdecimal() else None,
        files=tuple(name for name in said.values.get("file", []) if name in FILES),
        said=tuple(said.values.get("said", [])),
    )


def stop(folder: str) -> str:
    """The script that ends a trace and removes its folder."""
    return f"folder={shlex.quote(folder)}\n{_STOP}"

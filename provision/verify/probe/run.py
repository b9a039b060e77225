"""Gather all facts at once, each with a deadline of its own, and print them in a frame that noise around it cannot break."""

import base64
import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib

FACT_S = 30
TIERS = ("quick", "standard", "perf")
# The first tier that gathers a fact; what is not named is gathered by all. Quick imports no framework and starts no encoder, no compiler
# (and no profiler: see `counters.py`); what perf adds loads the GPU, and is run by itself when all else has ended.
FIRST_TIER = dict.fromkeys(
    ("opencv", "pytorch", "tensorflow", "jax", "encoders", "nvcc_runs", "cutlass", "opencl", "container_run"), "standard"
)
FIRST_TIER["perf"] = "perf"
REQUEST = {"tier": "standard", "containers": "none", "prefix": "", "until": time.monotonic() + FACT_S}
# Set when REQUEST holds what is asked. Facts begin before that.
ASKED = threading.Event()
ASKED.set()
# Facts that start a framework or a profiler may take longer; a function may say so itself by its attribute `deadline_s`.
SLOW_S = {"opencv": 60, "pytorch": 50, "tensorflow": 60, "jax": 60, "nvcc_runs": 60, "cutlass": 110, "counters": 130, "container_run": 150}
SLOW_S["perf"] = 240
# Facts of every tier whose programs take longest. They begin right after those of SLOW_S, and before all others.
BEGIN = ("tool_ffmpeg", "modules", "containers", "sessions", "variables", "fabric_on_disk", "file_systems")
# How often the facts so far are sent ahead: when a host dies during the slow facts, the others are not lost.
PART_S = 1.0
MOST_OUTPUT = 4 << 20
MOST_REASON = 500
RUNNING = set()
# The starts of commands that are under way, and whether the probe is leaving: then no command starts any more.
STARTING = set()
LEAVING = []
START_S = 0.5
BOOT_S = 120  # for so long after its start a host may still be starting
SEVERITIES = ["emergency: ", "alert: ", "critical: ", "error: ", "warning: ", "", "", ""]  # syslog(3)
COMPLAINT = re.compile(r"\bFATAL\b|\b(error|failed|failure)\b", re.IGNORECASE)
# How long a command that is ended has to clean up.
END_S = 0.3
# The folders that facts have made and not removed yet.
FOLDERS = set()
# The units that facts ask for: each module adds its own. Systemd is asked once for all; its answers are kept, or why it gave none.
UNITS = set()
SHOWN = {}
ASKING = threading.Lock()


class Unknown(Exception):  # noqa: N818 - an answer, not an error
    """A fact that could not be observed, with the reason."""


def asked(name):
    """What the request says under a name; waits until it is here."""
    ASKED.wait()
    return REQUEST[name]


def command(argv, timeout_s=FACT_S, env=None, cwd=None):
    """Run a command; returns (exit code, standard output, standard error). A missing one raises FileNotFoundError."""
    start = object()
    STARTING.add(start)
    try:
        if LEAVING:
            raise Unknown("the probe was ended")
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd, start_new_session=True
        )
        RUNNING.add(process)
    finally:
        STARTING.discard(start)
    try:
        out, err = outputs(process, argv[0], timeout_s)
    except Unknown:
        end(process)
        raise
    finally:
        RUNNING.discard(process)
        process.stdout.close()
        process.stderr.close()
    return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def end(*processes):
    """End commands with all that they started. First they are asked, because what a login shell runs may hold locks of its user.

    A moment later they are killed. Do not wait for that: a tool that hangs inside the driver cannot be killed.
    """
    left = {process for process in processes if send(process, signal.SIGTERM)}
    until = time.monotonic() + END_S
    while left and time.monotonic() < until:
        time.sleep(0.005)
        left = {process for process in left if send(process, 0)}
    for process in left:
        send(process, signal.SIGKILL)


def send(process, number):
    """Send a signal to a command with all that it started; whether any of them is left."""
    process.poll()  # one that has ended is there until it was asked for
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    except OSError:  # what another user runs now
        return True
    return True


def end_all():
    """End every command that still runs."""
    end(*list(RUNNING))


@contextlib.contextmanager
def own_folder():
    """A folder of our own for a fact, removed afterwards; where the probe ends before that, the probe removes it."""
    folder = tempfile.mkdtemp(prefix="gpuprov-")
    FOLDERS.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        FOLDERS.discard(folder)


def remove_folders():
    """Remove the folders of facts that have not ended. A command that was just killed may write a last file meanwhile."""
    until = time.monotonic() + START_S
    while FOLDERS and time.monotonic() < until:
        for folder in list(FOLDERS):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                FOLDERS.discard(folder)
        time.sleep(0.005)


def leave(*_, code=1):
    """End at once, with every command that still runs and every folder that is left.

    A command whose start is under way is known in a moment. One that does not start, as from a file server that hangs, is not waited for.
    """
    LEAVING.append(True)
    until = time.monotonic() + START_S
    while STARTING and time.monotonic() < until:
        time.sleep(0.005)
    end_all()
    remove_folders()
    os._exit(code)


def outputs(process, name, timeout_s):
    """What a process prints until it has ended; one that does not end in time, or prints more than facts can be, is Unknown."""
    until = time.monotonic() + timeout_s
    chunks = {process.stdout: [], process.stderr: []}
    room = MOST_OUTPUT
    with selectors.DefaultSelector() as waiting:
        for stream in chunks:
            waiting.register(stream, selectors.EVENT_READ)
        # A child left behind may hold the streams open: what matters is the end of the command itself, with nothing more to read.
        while waiting.get_map():
            ended = process.poll() is not None
            ready = waiting.select(0 if ended else max(0.0, min(0.2, until - time.monotonic())))
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                chunks[key.fileobj].append(data)
                room -= len(data)
                if not data:
                    waiting.unregister(key.fileobj)
            if ended and not ready:
                break
            if room < 0:
                raise Unknown("%s printed more than %d MB" % (name, MOST_OUTPUT >> 20))
            if time.monotonic() > until:
                raise Unknown("%s did not end within %d s" % (name, timeout_s))
    try:
        process.wait(max(0.1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Unknown("%s did not end within %d s" % (name, timeout_s)) from None
    return b"".join(chunks[process.stdout]), b"".join(chunks[process.stderr])


def read(path, limit=1 << 20):
    """The text of a file, or None where there is none; one that may not be read raises PermissionError."""
    try:
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def output(argv):
    """What a command prints; None where there is no such command, or it fails."""
    try:
        code, out, _ = command(argv, 10)
    except FileNotFoundError:
        return None
    return None if code else out


def unit(name):
    """Whether a unit is enabled and active, and what it starts; of one that does not run, whether it begins, and its complaints."""
    with ASKING:
        if name not in SHOWN and "" not in SHOWN:
            show_units([name, *sorted(UNITS - {name, *SHOWN})])
    if name not in SHOWN:
        raise Unknown(SHOWN[""])
    state = dict(line.partition("=")[::2] for line in SHOWN[name].splitlines())
    argv = re.search(r"argv\[\]=(.*?) ;", state.get("ExecStart", ""))
    answer = {
        "exists": state.get("LoadState") == "loaded",
        "enabled": state.get("UnitFileState") in ("enabled", "static"),
        "active": state.get("ActiveState") == "active",
        "command": argv.group(1) if argv else "",
    }
    now = state.get("ActiveState")
    if answer["exists"] and now in ("failed", "activating", "inactive") and (now != "inactive" or answer["enabled"]):
        begun = now == "activating" and state.get("SubState") != "auto-restart"
        answer["starting"] = begun or (now == "inactive" and boots())
        if now != "inactive" or state.get("Type") != "oneshot":  # one that has done its work has nothing to complain of
            answer.update(complaints(name))
    return answer


def boots():
    """Whether this host was started a moment ago, and systemd has not begun all units yet (systemctl(1), is-system-running)."""
    state = command(["systemctl", "is-system-running"], 10)[1].strip()
    return state in ("initializing", "starting") and float((read("/proc/uptime") or "inf").split()[0]) < BOOT_S


def complaints(name):
    """What this boot's journal has of a unit: the last warnings and worse, of systemd and of the unit's own; or why it cannot be read.

    Programs that a unit starts write without a severity: their words decide. The modules of the driver are loaded by a unit of systemd's.
    """
    words = ["journalctl", "-b", "-q", "-u", name, "-u", "systemd-modules-load.service", "-n", "200", "-o", "json", "--no-pager"]
    try:
        code, out, err = command(words, 10)
        rows = [json.loads(line) for line in out.splitlines()]
    except (Unknown, OSError, ValueError) as reason:
        return {"unread": str(reason)[:200]}
    if code or (not rows and os.geteuid() != 0):
        return {"unread": (err.strip().splitlines() or ["the journal shows nothing to this user"])[-1][:200]}
    lines = []
    for row in rows:
        text, priority = str(row.get("MESSAGE")), int(row.get("PRIORITY") or 6)
        if (priority <= 4 or COMPLAINT.search(text)) and ("systemd-modules-load" not in str(row) or "nvidia" in text):
            lines.append((SEVERITIES[priority] + text)[:200])
    return {"lines": lines[-5:]}


def show_units(names):
    """Ask systemd for units. It answers in their order, with an empty line between two; under the name "" is why it did not."""
    try:
        out = output(["systemctl", "show", "--property=LoadState,UnitFileState,ActiveState,SubState,Type,ExecStart", *names])
    except Unknown as reason:
        SHOWN[""] = str(reason)
    else:
        blocks = zip(names, out.split("\n\n")) if out is not None else [("", "no systemd answers on this host")]  # noqa: B905 - Python 3.8
        SHOWN.update(blocks)


def gather(facts, deadline_s, tell=None, more=dict):
    """Run every fact in a thread; returns name -> {"value": ...} or {"unknown": reason}, and always every name.

    `tell` gets the answers so far, now and then, while others are waited for. `more` gives further facts when the first have begun; it may
    wait, and the time that facts have counts from then on.
    """
    answers, threads = {}, {}

    def observe(name, function):
        try:
            answers[name] = {"value": function()}
        except Unknown as reason:
            answers[name] = {"unknown": str(reason)[:MOST_REASON]}
        except ImportError as error:
            answers[name] = {"unknown": "this python3 has no module %s" % error.name}
        except Exception as error:  # noqa: BLE001 - a fact that breaks must not take the others along; its reason travels
            answers[name] = {"unknown": ("%s: %s" % (type(error).__name__, error))[:MOST_REASON]}

    def begin(some):
        for name in sorted(some, key=lambda name: (name not in SLOW_S, name not in BEGIN)):
            threads[name] = threading.Thread(target=observe, args=(name, some[name]), daemon=True)
            threads[name].start()

    until = time.monotonic() + deadline_s
    begin(facts)
    later = more()
    begin(later)
    facts = dict(facts, **later)
    began = time.monotonic()
    allowed = {name: min(until - began, getattr(function, "deadline_s", SLOW_S.get(name, FACT_S))) for name, function in facts.items()}
    for name in sorted(threads, key=allowed.get):
        while threads[name].is_alive() and time.monotonic() < began + allowed[name]:
            threads[name].join(max(0.0, min(PART_S / 4, began + allowed[name] - time.monotonic())))
            if tell and threads[name].is_alive():
                tell(dict(answers))
    in_time = dict(answers)  # what a command said because it was ended is no answer
    end_all()
    return {name: in_time.get(name, {"unknown": "not observed within %d s" % round(max(0, allowed[name]))}) for name in facts}


def answer(facts, deadline_s, tier="standard", tell=None, ask=lambda: None):
    """What a tier observes, when by this host's clock, and how long it took; `tell` gets the same of the answers so far.

    `ask` waits for the request, in which another tier may stand; the facts of every tier have begun before it is called.
    """
    # Importing a framework or running its kernels would leave compiled files behind.
    os.environ.update(PYTHONDONTWRITEBYTECODE="1", CUDA_CACHE_DISABLE="1")
    began = time.monotonic()
    REQUEST.update(tier=tier, until=began + deadline_s)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def observed(answers):
        return {"gathered_at": at, "facts": answers, "elapsed_s": round(time.monotonic() - began, 3)}

    return observed(gather_tier(facts, REQUEST["until"], tell and (lambda answers: tell(observed(answers))), ask))


def gather_tier(facts, until, tell=None, ask=lambda: None):
    """Run the facts of REQUEST's tier, first those that may run side by side, then those that must run alone; for the others the reason."""
    rank = {name: TIERS.index(FIRST_TIER.get(name, "quick")) for name in facts}

    def more():
        ask()
        return {name: facts[name] for name in facts if rank[name] == 1 and REQUEST["tier"] != "quick"}

    answers = gather({name: facts[name] for name in facts if rank[name] == 0}, until - time.monotonic(), tell, more)
    tier = REQUEST["tier"]
    for name in facts:
        if rank[name] > TIERS.index(tier):
            answers[name] = {"unknown": "not gathered by tier %s" % tier}
        elif rank[name] > 1:
            if tell:
                tell(answers)  # what follows loads the GPU, and takes longest
            answers.update(gather({name: facts[name]}, until - time.monotonic()))
    return answers


class Sender:
    """Sends facts in frames with one nonce: numbered parts, each with what no part before it had, and the last with the rest."""

    def __init__(self, nonce, names):
        self.nonce, self.names, self.sent, self.parts, self.last = nonce, sorted(names), set(), 0, time.monotonic()

    def part(self, observed):
        """What is new, unless a part was sent a moment ago; the first part names all facts to come."""
        new = {name: fact for name, fact in observed["facts"].items() if name not in self.sent}
        if not new or time.monotonic() < self.last + PART_S:
            return
        self.parts += 1
        first = {"promised": self.names} if self.parts == 1 else {}
        self.write("part %d " % self.parts, dict(observed, facts=new, **first))
        self.sent.update(new)
        self.last = time.monotonic()

    def rest(self, observed):
        """What no part had."""
        self.write("", dict(observed, facts={name: fact for name, fact in observed["facts"].items() if name not in self.sent}))

    def write(self, kind, message):
        """One frame. When nobody reads any more, nothing keeps running here."""
        packed = base64.b64encode(zlib.compress(json.dumps(message).encode()))
        try:
            sys.stdout.write("\n<<gpuprov %s %s%d>>%s<<end>>\n" % (self.nonce, kind, len(packed), packed.decode()))
            sys.stdout.flush()
        except OSError:
            leave()


def main(head, facts, ask):
    """Gather and print.

    `head` holds the nonce of the frames and the overall deadline. `ask` waits for the request, which holds what is asked, with the defaults
    of REQUEST; where none comes (ValueError, as from the end of a stream), nobody reads any more.
    """
    ASKED.clear()
    signal.signal(signal.SIGTERM, leave)

    def request():
        try:
            said = ask()
        except ValueError:
            leave()
        REQUEST.update({name: said[name] for name in REQUEST if name in said})
        ASKED.set()

    sender = Sender(head["nonce"], facts)
    sender.rest(answer(facts, head["deadline_s"], tell=sender.part, ask=request))
    leave(code=0)  # a fact that hangs must not keep the connection, nor begin another command

"""What the GPUs do under load: a tensor-core product, memory, copies to and from the host, a sum over all of them.

One process a GPU takes one part after another from its standard input, and so ends together with its parent; meanwhile NVML is read here.
No setting is touched. Sources: docs/sources/verification.md §2.11.
"""

import contextlib
import json
import os
import queue
import socket
import subprocess
import threading
import time

from device import gpus, need_gpu, selected
from libraries import SECONDS, installed, tried
from run import REQUEST, Unknown, read
from stack import home_of
from worker import WORKER

TOTAL_S = 60
# What a part may take; all together no more than TOTAL_S. Importing PyTorch from a cold disk takes longest.
LIMITS_S = {"start": 30, "gemm": 15, "memory": 8, "copies": 6, "all_reduce": 25, "data_parallel": 10, "amp": 10, "triton": 25, **SECONDS}
SAMPLE_S = 0.1
SETTLE_S = 0.5  # of each load, before clocks and power are those of the load
REST_S = 3.0  # a GPU that nobody uses any more has dropped its clocks by then, if nothing locks them


class Crew:
    """One process a GPU, and what each said of each part."""

    def __init__(self, python, count, until):
        """Start them; `until` is when all must have ended, by the monotonic clock."""
        self.until, self.answers, self.loaded, self.ended = until, queue.Queue(), {}, {}
        self.last, self.lost, self.listeners = [""] * count, {}, []
        limit = str(max(1, int(until - time.monotonic()) + 5))
        # In the order of NVML, and all GPUs that it reaches and that compute, whatever this environment leaves visible.
        environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        environment.update(selected(), CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_CACHE_DISABLE="1")  # the cache would stay in the user's home
        how = dict(dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE), env=environment, cwd="/")
        self.workers = [subprocess.Popen([python, "-Bc", WORKER, str(rank), str(count), limit], **how) for rank in range(count)]
        for rank, worker in enumerate(self.workers):
            self.listeners.append(threading.Thread(target=self.keep_last, args=(rank, worker.stderr), daemon=True))
            self.listeners.append(threading.Thread(target=self.listen, args=(rank, worker.stdout), daemon=True))
        for listener in self.listeners:
            listener.start()

    def listen(self, rank, stream):
        """Pass on what a worker says, with the time at which it came; None when it ended."""
        for line in stream:
            noise, mark, text = line.partition(b"gpuprov-json=")
            if mark and not noise:
                message = json.loads(text)
                if message["part"] == "loaded":
                    self.loaded[rank] = time.monotonic()
                else:
                    self.answers.put((rank, message["part"], message["answer"]))
        self.answers.put((rank, None, None))

    def keep_last(self, rank, stream):
        """Keep the last line of a worker's complaints."""
        for line in stream:
            text = line.decode("utf-8", "replace").strip()
            self.last[rank] = text[:300] or self.last[rank]

    def ask(self, part, ranks, words=""):
        """Let some workers do a part at the same time; returns rank -> answer, or the reason why there is none."""
        waiting, answers = set(), {}
        for rank in ranks:
            if rank in self.lost:
                answers[rank] = {"reason": "not-run", "unknown": self.lost[rank]}
                continue
            waiting.add(rank)
            if part != "start":
                try:
                    self.workers[rank].stdin.write(("%s %s\n" % (part, words)).encode())
                    self.workers[rank].stdin.flush()
                except OSError:
                    pass  # it ended: `listen` says so
        limit = max(0.0, min(LIMITS_S[part], self.until - time.monotonic()))
        end = time.monotonic() + limit
        while waiting:
            try:
                rank, name, answer = self.answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if name is None and rank in waiting:
                self.listeners[2 * rank].join(1)
                answer = {"reason": "died", "unknown": "%s: the process ended (%s)" % (part, self.last[rank] or "without a word")}
                self.lost[rank] = answer["unknown"]
            if name in (part, None) and rank in waiting:
                answers[rank] = answer
                self.ended[rank] = time.monotonic()
                waiting.discard(rank)
        for rank in waiting:
            self.workers[rank].kill()
            # A part that had less than its time, because others took theirs, does not hang.
            reason = "timeout" if limit >= LIMITS_S[part] - 1 else "not-run"
            answers[rank] = {"reason": reason, "unknown": "%s did not end within %d s" % (part, limit)}
            self.lost[rank] = answers[rank]["unknown"]
        return answers

    def end(self):
        """Leave no process behind."""
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.wait()
        for listener in self.listeners:
            listener.join(1)
        for worker in self.workers:
            for stream in (worker.stdin, worker.stdout, worker.stderr):
                with contextlib.suppress(OSError):  # an order that was not read
                    stream.close()


class Meter:
    """NVML's readings of every GPU, taken again and again while the crew works."""

    def __init__(self):
        """Open the library; a driver that does not answer is the reason for no measurement."""
        import pynvml

        self.nvml = pynvml
        try:
            pynvml.nvmlInit()
            handles, self.lost = gpus(pynvml)
        except pynvml.NVMLError as error:
            raise Unknown("NVML: %s" % error) from None
        self.indices, self.handles = list(handles), list(handles.values())
        self.samples, self.stopped = [], threading.Event()

    def first(self, *calls):
        """The answer of the first of several functions that this driver has; None where it has none."""
        for name, *arguments in calls:
            try:
                return getattr(self.nvml, name)(*arguments)
            except (self.nvml.NVMLError, AttributeError, TypeError):
                continue
        return None

    def processes(self, handle):
        """Process id -> name of everything that computes or draws on a GPU; None where the driver does not say."""
        users = None
        for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
            processes = self.first((name, handle))
            if processes is not None:
                users = dict(users or {}, **{str(p.pid): (read("/proc/%d/comm" % p.pid) or "").strip() for p in processes})
        return users

    def sample(self, handle):
        """One reading of one GPU."""
        power, limit = self.first(("nvmlDeviceGetPowerUsage", handle)), self.first(("nvmlDeviceGetEnforcedPowerLimit", handle))
        return {
            "sm_mhz": self.first(("nvmlDeviceGetClockInfo", handle, self.nvml.NVML_CLOCK_SM)),
            "memory_mhz": self.first(("nvmlDeviceGetClockInfo", handle, self.nvml.NVML_CLOCK_MEM)),
            "power_w": None if power is None else power / 1000,
            "power_limit_w": None if limit is None else limit / 1000,
            "temperature_c": self.first(
                ("nvmlDeviceGetTemperatureV", handle, self.nvml.NVML_TEMPERATURE_GPU),
                ("nvmlDeviceGetTemperature", handle, self.nvml.NVML_TEMPERATURE_GPU),
            ),
            "reasons": self.first(
                ("nvmlDeviceGetCurrentClocksEventReasons", handle), ("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
            ),
            "link_generation": self.first(("nvmlDeviceGetCurrPcieLinkGeneration", handle)),
            "link_width": self.first(("nvmlDeviceGetCurrPcieLinkWidth", handle)),
            "processes": self.processes(handle),
        }

    def busy(self):
        """Per cent of the last moment in which each GPU ran something; None where the driver does not say."""
        rates = [self.first(("nvmlDeviceGetUtilizationRates", handle)) for handle in self.handles]
        return [None if rate is None else rate.gpu for rate in rates]

    def watch(self):
        """Sample until told to stop; run in a thread."""
        while not self.stopped.wait(SAMPLE_S):
            self.samples.append((time.monotonic(), [self.sample(handle) for handle in self.handles]))

    def rest(self, until):
        """Each GPU after our own processes have ended: its lowest SM clock, and who else uses it; None where there is no time to wait."""
        end = time.monotonic() + REST_S
        if end > until:
            return [None] * len(self.handles)
        resting = [{"sm_mhz": None, "users": None} for _ in self.handles]
        while time.monotonic() < end:
            time.sleep(SAMPLE_S)
            for rest, handle in zip(resting, self.handles):  # noqa: B905 - the host's Python may be older than the keyword
                clocks = [rest["sm_mhz"], self.first(("nvmlDeviceGetClockInfo", handle, self.nvml.NVML_CLOCK_SM))]
                rest["sm_mhz"] = min((clock for clock in clocks if clock is not None), default=None)
                users = self.processes(handle)
                rest["users"] = None if users is None else sorted("%s %s" % item for item in users.items())
        return resting

    def load(self, index, since, until):
        """What one GPU was doing between two moments, and its link and its other users throughout."""
        seen = [(at, devices[index]) for at, devices in self.samples]
        during = [sample for at, sample in seen if since <= at <= until]

        def of(name, choose, samples=during):
            values = [sample[name] for sample in samples if sample[name] is not None]
            return choose(values) if values else None

        links = [(s["link_generation"], s["link_width"]) for _, s in seen if s["link_generation"] and s["link_width"]]
        generation, width = max(links, default=(None, None))
        bits = [sample["reasons"] for sample in during if sample["reasons"] is not None]
        handle = self.handles[index]
        return {
            "samples": len(during),
            "sm_mhz": of("sm_mhz", middle),
            "top_sm_mhz": of("sm_mhz", max, [sample for _, sample in seen]),
            "memory_mhz": of("memory_mhz", middle),
            "max_sm_mhz": self.first(("nvmlDeviceGetMaxClockInfo", handle, self.nvml.NVML_CLOCK_SM)),
            "power_w": of("power_w", middle),
            "power_limit_w": of("power_limit_w", middle),
            "temperature_c": of("temperature_c", max),
            "reasons": shares(bits) if bits else None,
            "link_generation": generation,
            "link_width": width,
            "max_link_generation": self.first(("nvmlDeviceGetMaxPcieLinkGeneration", handle)),
            "max_link_width": self.first(("nvmlDeviceGetMaxPcieLinkWidth", handle)),
        }


def shares(bits):
    """Bit of the clocks event reasons -> the share of the samples in which it was set."""
    return {str(1 << n): round(sum(b >> n & 1 for b in bits) / len(bits), 2) for n in range(32) if any(b >> n & 1 for b in bits)}


def middle(values):
    """The median, or the upper of the two in the middle."""
    return sorted(values)[len(values) // 2]


def others(before, samples, own):
    """Who was on a GPU before and during; in a container our own process may be listed by an id that does not exist here."""
    during = {}
    for sample in samples:
        during.update(sample or {})
    strange = {pid: name for pid, name in during.items() if pid not in own and pid not in before}
    if not own & set(during) and len(strange) == 1 and not os.path.exists("/proc/" + next(iter(strange))):
        strange = {}
    return {
        "before": sorted("%s %s" % item for item in before.items()),
        "during": sorted("%s %s" % item for item in dict({p: n for p, n in before.items() if p in during}, **strange).items()),
        "seen": any(sample is not None for sample in samples),
    }


def free_port():
    """A port of the loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def measurement():
    """All parts on all GPUs, one after another, in at most TOTAL_S and what the libraries that are installed may take."""
    need_gpu()
    python = home_of("pytorch") + "/bin/python"
    if not os.path.exists(python):
        raise Unknown("no PyTorch in %s to measure with" % home_of("pytorch"))
    until = min(time.monotonic() + TOTAL_S + sum(map(SECONDS.get, installed())), REQUEST["until"]) - 1
    meter = Meter()
    count = len(meter.handles)
    before = [meter.processes(handle) or {} for handle in meter.handles]
    crew = Crew(python, count, until)
    ranks = range(count)
    try:
        started = crew.ask("start", ranks)
        torch = next((answer for answer in started.values() if "version" in answer), None)
        if torch is None:
            raise Unknown("PyTorch does not start: %s" % started[0]["unknown"] if started else "NVML reaches no device: %s" % meter.lost)
        busy = meter.busy()
        threading.Thread(target=meter.watch, daemon=True).start()
        gemm = crew.ask("gemm", ranks)
        windows = [(crew.loaded.get(rank, until) + SETTLE_S, crew.ended.get(rank, until)) for rank in ranks]
        memory = crew.ask("memory", ranks)
        copies = {}
        for rank in ranks:  # in turn: side by side they would share the host's memory and the switches between
            copies.update(crew.ask("copies", [rank]))
        reduced = split = {0: {"reason": "one-gpu", "unknown": "there is one GPU"}}
        if count > 1:
            # Without one of them the others would wait for it until their deadline.
            reduced = crew.ask("all_reduce", [] if crew.lost else ranks, free_port()) or {
                0: {"reason": "not-run", "unknown": str(next(iter(crew.lost.values())))}
            }
            split = crew.ask("data_parallel", [0])
        programs = dict({part: crew.ask(part, ranks) for part in ("amp", "triton")}, **tried(crew, ranks))
    finally:
        meter.stopped.set()
        crew.end()
    resting = meter.rest(REQUEST["until"] - 0.5)
    own = {str(worker.pid) for worker in crew.workers}
    samples = list(meter.samples)
    devices = []
    for rank, handle in enumerate(meter.handles):
        name = meter.first(("nvmlDeviceGetName", handle)) or ""
        devices.append(
            {
                "name": (name.decode() if isinstance(name, bytes) else name) or None,
                "index": meter.indices[rank],
                "gemm": gemm[rank],
                "memory": memory[rank],
                "copies": copies[rank],
                "load": meter.load(rank, *windows[rank]),
                "rest": resting[rank],
                **{part: answers[rank] for part, answers in programs.items()},
                "others": dict(others(before[rank], [s[rank]["processes"] for _, s in samples], own), busy_before=busy[rank]),
            }
        )
    devices = sorted(devices + unreached(devices[0], meter.lost), key=lambda device: device["index"])
    # NCCL takes orders from the environment, and they explain what was measured.
    orders = {name: value for name, value in sorted(os.environ.items()) if name.startswith("NCCL_") and name != "NCCL_VERSION"}
    worst = next((answer for answer in reduced.values() if "unknown" in answer), reduced[0])
    return {"torch": torch, "devices": devices, "all_reduce": dict(worst, environment=orders), "data_parallel": split[0]}


def unreached(like, lost):
    """The GPUs that NVML does not reach, in the form of one that was measured."""
    read = {"name": None, "load": {"samples": 0}, "rest": None, "others": {"before": [], "during": [], "seen": False}}
    return [dict({part: {"reason": "lost", "unknown": reason} for part in like}, index=index, **read) for index, reason in lost.items()]


FACTS = {"perf": measurement}

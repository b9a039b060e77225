"""What NVML says of GPUs while something is measured: clocks, power, temperature, what holds the clocks down, and errors."""

import contextlib
import importlib
import os
import threading
import time

EVERY_S = 0.1
XID = 0x8


class BenchMeter:
    """Reads NVML again and again, of the GPUs at some positions (all, if none are named)."""

    def __init__(self, positions=None):
        """Open NVML; `why` says why nothing can be read, `lost` which GPUs NVML lists and does not reach."""
        self.why, self.handles, self.rows, self.stopped, self.paused, self.lost = "", {}, {}, threading.Event(), False, {}
        self.nvml, self.events = importlib.import_module("pynvml"), None
        try:
            self.nvml.nvmlInit()
            wanted = [index for index in range(self.nvml.nvmlDeviceGetCount()) if positions is None or index in positions]
        except self.nvml.NVMLError as error:
            wanted, self.why = [], "NVML: %s" % error
        for index in wanted:
            try:
                self.handles[index], self.rows[index] = self.nvml.nvmlDeviceGetHandleByIndex(index), []
            except self.nvml.NVMLError as error:
                self.lost[index] = "GPU %d: %s" % (index, error)

    def ask(self, name, *arguments):
        """A reading, or None where this driver or GPU has none."""
        try:
            value = getattr(self.nvml, name)(*arguments)
        except (self.nvml.NVMLError, AttributeError, TypeError):
            return None
        return value.decode() if isinstance(value, bytes) else value

    def identity(self, index):
        """What does not change while we measure."""
        handle = self.handles[index]
        pci, limit = self.ask("nvmlDeviceGetPciInfo", handle), self.ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        memory, mig = self.ask("nvmlDeviceGetMemoryInfo", handle), self.ask("nvmlDeviceGetMigMode", handle)
        bus = pci.busId if pci is not None else ""
        return present(
            name=self.ask("nvmlDeviceGetName", handle),
            uuid=self.ask("nvmlDeviceGetUUID", handle),
            pci=(bus.decode() if isinstance(bus, bytes) else bus).lower(),
            driver=self.ask("nvmlSystemGetDriverVersion"),
            memory_bytes=memory.total if memory is not None else None,
            power_limit_w=limit / 1000.0 if limit is not None else None,
            max_sm_mhz=self.ask("nvmlDeviceGetMaxClockInfo", handle, self.nvml.NVML_CLOCK_SM),
            max_link_generation=self.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            max_link_width=self.ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
            mig=bool(mig[0]) if mig else None,
        )

    def errors(self, index):
        """The counts of errors in memory, which only grow."""
        handle = self.handles[index]
        rows = self.ask("nvmlDeviceGetRemappedRows", handle)
        return present(
            ecc_corrected=self.ask("nvmlDeviceGetTotalEccErrors", handle, 0, 0),
            ecc_uncorrected=self.ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0),
            rows_remapped=rows[0] + rows[1] if rows else None,
        )

    def listen(self):
        """Ask to be told of Xids from now on."""
        with contextlib.suppress(self.nvml.NVMLError, AttributeError):
            events = self.nvml.nvmlEventSetCreate()
            for handle in self.handles.values():
                self.nvml.nvmlDeviceRegisterEvents(handle, XID, events)
            self.events = events

    def xids(self):
        """The Xids since `listen` or the last call; None where the driver does not tell them to this user."""
        if self.events is None:
            return None
        codes = []
        with contextlib.suppress(self.nvml.NVMLError):
            while len(codes) < 50:
                codes.append(int(self.nvml.nvmlEventSetWait_v2(self.events, 0).eventData))
        return codes

    def users(self, index):
        """The processes that compute on a GPU: [process id, who, what]; None where the driver does not list them."""
        processes = self.ask("nvmlDeviceGetComputeRunningProcesses", self.handles[index])
        return None if processes is None else [[p.pid, *process(p.pid)] for p in processes[:50]]

    def busy(self, index):
        """Per cent of the last moment in which the GPU ran something."""
        rate = self.ask("nvmlDeviceGetUtilizationRates", self.handles[index])
        return None if rate is None else rate.gpu

    def cores(self, index):
        """The cores that are near a GPU, by the kernel; empty where it does not say."""
        try:
            with open("/sys/bus/pci/devices/%s/local_cpulist" % self.identity(index).get("pci", "")[-12:]) as file:
                parts = [part.split("-") for part in file.read(4096).strip().split(",") if part]
            return {core for part in parts for core in range(int(part[0]), int(part[-1]) + 1)}
        except (OSError, ValueError):
            return set()

    def row(self, index):
        """One reading of one GPU."""
        handle, milliwatts = self.handles[index], self.ask("nvmlDeviceGetPowerUsage", self.handles[index])
        reasons = self.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        return {
            "sm_mhz": self.ask("nvmlDeviceGetClockInfo", handle, self.nvml.NVML_CLOCK_SM),
            "memory_mhz": self.ask("nvmlDeviceGetClockInfo", handle, self.nvml.NVML_CLOCK_MEM),
            "power_w": None if milliwatts is None else milliwatts / 1000.0,
            "temperature_c": self.ask("nvmlDeviceGetTemperature", handle, self.nvml.NVML_TEMPERATURE_GPU),
            "reasons": self.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle) if reasons is None else reasons,
            "link_generation": self.ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            "link_width": self.ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        }

    def watch(self):
        """Read until told to stop; a thread does this."""
        while not self.stopped.wait(EVERY_S):
            if not self.paused:
                for index in self.handles:
                    self.rows[index].append((time.monotonic(), self.row(index)))

    def start(self):
        """Begin to read."""
        threading.Thread(target=self.watch, daemon=True).start()

    def power(self, index, since):
        """The average power since a moment; None where it is not known."""
        watts = [row["power_w"] for at, row in self.rows.get(index, ()) if at >= since and row["power_w"] is not None]
        return sum(watts) / len(watts) if watts else None

    def load(self, index, since, until):
        """A GPU between two moments: medians of clocks and power, the highest temperature, and the share of each reason."""
        rows = [row for at, row in self.rows.get(index, ()) if since <= at <= until]

        def of(name, choose):
            values = sorted(row[name] for row in rows if row[name] is not None)
            return choose(values) if values else None

        bits = [row["reasons"] for row in rows if row["reasons"] is not None]
        names = ("sm_mhz", "memory_mhz", "power_w", "link_generation", "link_width")
        return present(
            samples=len(rows),
            temperature_c=of("temperature_c", max),
            min_sm_mhz=of("sm_mhz", min),
            reasons={str(1 << n): round(sum(b >> n & 1 for b in bits) / len(bits), 2) for n in range(32) if any(b >> n & 1 for b in bits)}
            if bits
            else None,
            **{name: of(name, lambda values: values[len(values) // 2]) for name in names},
        )


def present(**readings):
    """The readings that there are."""
    return {name: value for name, value in readings.items() if value is not None}


def process(pid):
    """Who runs a process, and what it is; empty where this machine does not see it."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = file.read(400).replace(b"\0", b" ").decode("utf-8", "replace").strip()
        return [str(os.stat("/proc/%d" % pid).st_uid), words[:200]]
    except OSError:
        return ["", ""]

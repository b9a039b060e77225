"""What NVML tells of the GPUs. A reading that fails is absent: nothing is made up, and nothing counts as 0."""

import contextlib
import glob
import importlib
import os

# Every fifth sample: NVML watches the bus for 20 ms a direction, while nothing else is measured.
PCIE_EVERY = 5
# NVML's number of a metric → ours, what it is divided by. Source: nvml.h, nvmlGpmMetricId_t.
GPM = {
    2: ("sm_active", 100.0),
    3: ("sm_occupancy", 100.0),
    5: ("tensor_active", 100.0),
    10: ("dram_active", 100.0),
    20: ("pcie_sent_bytes_s", 1.0 / (1 << 20)),
    21: ("pcie_received_bytes_s", 1.0 / (1 << 20)),
    60: ("nvlink_received_bytes_s", 1.0 / (1 << 20)),
    61: ("nvlink_sent_bytes_s", 1.0 / (1 << 20)),
}
XID = 0x8
UNKNOWN_MEMORY = (1 << 64) - 1


class GpuReader:
    """The GPUs of this host; `why` says why there are none."""

    def __init__(self):
        self.why, self.handles, self.lost, self.gpm, self.known = "", {}, {}, {}, {}
        self.nvml = self.set = None
        if not glob.glob("/dev/nvidia[0-9]*") and not os.path.isdir("/sys/module/nvidia"):
            self.why = "no NVIDIA GPU on this host"
            return
        self.nvml = importlib.import_module("pynvml")
        try:
            self.nvml.nvmlInit()
            for index in range(self.nvml.nvmlDeviceGetCount()):
                self.find(index)
        except self.nvml.NVMLError as error:
            self.why = "NVML: %s" % error
            return
        self.listen()

    def find(self, index):
        """Keep a GPU's handle and what does not change of it; or why there is none, which hides no other GPU."""
        try:
            self.handles[index] = self.nvml.nvmlDeviceGetHandleByIndex(index)
        except self.nvml.NVMLError as error:
            self.lost[index] = str(error)
        else:
            self.known[index] = self.identity(self.handles[index])

    def ask(self, name, *arguments):
        """A reading, or None."""
        try:
            value = getattr(self.nvml, name)(*arguments)
        except (self.nvml.NVMLError, AttributeError):
            return None
        return value.decode() if isinstance(value, bytes) else value

    def identity(self, handle):
        """What does not change while the driver is loaded."""
        pci = self.ask("nvmlDeviceGetPciInfo", handle)
        bus = pci.busId if pci is not None else ""
        limits = self.ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle)
        mig = self.ask("nvmlDeviceGetMigMode", handle)
        support = self.ask("nvmlGpmQueryDeviceSupport", handle)
        return self.present(
            uuid=self.ask("nvmlDeviceGetUUID", handle),
            name=self.ask("nvmlDeviceGetName", handle),
            pci=(bus.decode() if isinstance(bus, bytes) else bus).lower(),
            driver=self.ask("nvmlSystemGetDriverVersion"),
            memory_bytes=memory.total if memory is not None else None,
            power_limit_w=limits / 1000.0 if limits is not None else None,
            sm_most_mhz=self.ask("nvmlDeviceGetMaxClockInfo", handle, self.nvml.NVML_CLOCK_SM),
            mig=bool(mig[0]) if mig else None,
            gpm=bool(support.isSupportedDevice) if support is not None else False,
        )

    def present(self, **readings):
        """The readings that there are."""
        return {name: value for name, value in readings.items() if value is not None}

    def listen(self):
        """Ask to be told of Xids from now on."""
        with contextlib.suppress(self.nvml.NVMLError, AttributeError):
            events = self.nvml.nvmlEventSetCreate()
            for handle in self.handles.values():
                self.nvml.nvmlDeviceRegisterEvents(handle, XID, events)
            self.set = events

    def events(self):
        """The Xids since the last call, by the GPU's position; None where the driver does not tell them to this user."""
        if self.set is None:
            return None
        found = []
        while len(found) < 50:
            try:
                event = self.nvml.nvmlEventSetWait_v2(self.set, 0)
            except self.nvml.NVMLError:
                break
            where = self.ask("nvmlDeviceGetIndex", event.device)
            found.append({"gpu": where if where is not None else -1, "xid": int(event.eventData)})
        return found

    def sample(self, number):
        """The readings of all GPUs; one that is lost says so."""
        readings = {index: self.one(index, handle, number) for index, handle in self.handles.items()}
        readings.update((index, {"lost": why}) for index, why in self.lost.items())
        return [readings[index] for index in sorted(readings)]

    def one(self, index, handle, number):
        """The readings of one GPU."""
        nvml, ask = self.nvml, self.ask
        try:
            temperature = nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        except nvml.NVMLError as error:
            lost = error.value in (nvml.NVML_ERROR_GPU_IS_LOST, getattr(nvml, "NVML_ERROR_RESET_REQUIRED", 16))
            if lost:
                return dict(self.known[index], lost=str(error))
            temperature = None
        use, memory, power = ask("nvmlDeviceGetUtilizationRates", handle), ask("nvmlDeviceGetMemoryInfo", handle), None
        milliwatts, energy = ask("nvmlDeviceGetPowerUsage", handle), ask("nvmlDeviceGetTotalEnergyConsumption", handle)
        if milliwatts is not None:
            power = milliwatts / 1000.0
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        encoder, decoder = ask("nvmlDeviceGetEncoderUtilization", handle), ask("nvmlDeviceGetDecoderUtilization", handle)
        remapped = ask("nvmlDeviceGetRemappedRows", handle)
        answer = self.present(
            kernel_present=use.gpu / 100.0 if use is not None else None,
            memory_busy=use.memory / 100.0 if use is not None else None,
            memory_used_bytes=memory.used if memory is not None else None,
            memory_free_bytes=memory.free if memory is not None else None,
            power_w=power,
            energy_mj=energy,
            sm_mhz=ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            memory_mhz=ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM),
            temperature_c=temperature,
            reasons=reasons if reasons is not None else ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
            encoder=encoder[0] / 100.0 if encoder else None,
            decoder=decoder[0] / 100.0 if decoder else None,
            ecc_uncorrected=ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0),
            rows_remapped=remapped[1] if remapped else None,
            remap_failed=bool(remapped[3]) if remapped else None,
            remap_pending=bool(remapped[2]) if remapped else None,
            pcie_replays=ask("nvmlDeviceGetPcieReplayCounter", handle),
        )
        answer.update(self.profiled(index, handle))
        if "pcie_sent_bytes_s" not in answer and number % PCIE_EVERY == 0:
            for name, counter in (("pcie_sent_bytes_s", 0), ("pcie_received_bytes_s", 1)):
                kilobytes = ask("nvmlDeviceGetPcieThroughput", handle, counter)
                if kilobytes is not None:
                    answer[name] = kilobytes * 1024.0
        if self.known[index].get("mig"):
            answer["slices"] = self.slices(handle)
        return dict(self.known[index], **answer)

    def profiled(self, index, handle):
        """What Hopper and later count themselves between two samples; empty on others, and for the first sample."""
        if not self.known[index].get("gpm"):
            return {}
        nvml = self.nvml
        try:
            older, newer = self.gpm.get(index) or (None, nvml.nvmlGpmSampleAlloc())
            if older is None:
                nvml.nvmlGpmSampleGet(handle, newer)
                self.gpm[index] = (newer, nvml.nvmlGpmSampleAlloc())
                return {}
            nvml.nvmlGpmSampleGet(handle, newer)
            wanted = nvml.c_nvmlGpmMetricsGet_t()
            wanted.version, wanted.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(GPM)
            wanted.sample1, wanted.sample2 = older, newer
            for position, metric in enumerate(GPM):
                wanted.metrics[position].metricId = metric
            self.gpm[index] = (newer, older)
            nvml.nvmlGpmMetricsGet(wanted)
        except (nvml.NVMLError, AttributeError):
            return {}
        answer = {}
        for entry in wanted.metrics[: len(GPM)]:
            if entry.nvmlReturn == 0 and entry.value == entry.value and 0 <= entry.value < 1e15:
                name, unit = GPM[entry.metricId]
                answer[name] = entry.value / unit
        return answer

    def slices(self, handle):
        """The parts of a GPU that is divided, with their memory."""
        answer = []
        for number in range(self.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            part = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            if part is None:
                continue
            memory = self.ask("nvmlDeviceGetMemoryInfo", part)
            answer.append(
                self.present(
                    name=self.ask("nvmlDeviceGetName", part),
                    uuid=self.ask("nvmlDeviceGetUUID", part),
                    memory_used_bytes=memory.used if memory is not None else None,
                    memory_bytes=memory.total if memory is not None else None,
                )
            )
        return answer

    def processes(self, host):
        """Who computes on a GPU. The driver names a process that is gone only while its memory is held."""
        answer, all_seen = [], host.sees_all_processes()
        for index, handle in self.handles.items():
            for process in (self.ask("nvmlDeviceGetComputeRunningProcesses", handle) or [])[:200]:
                who = host.process(process.pid)
                used = process.usedGpuMemory
                answer.append(
                    dict(
                        who or {"user": "", "command": "", "container": ""},
                        gpu=index,
                        pid=process.pid,
                        lost=who is None and all_seen,
                        **({"memory_bytes": used} if used is not None and used != UNKNOWN_MEMORY else {}),
                    )
                )
        return answer

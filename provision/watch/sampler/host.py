"""The processor, the memory, the disks and the network of this host, from /proc."""

import os
import pwd
import re
import time

SECTOR_BYTES = 512
WHOLE_DISK = re.compile(r"(nvme\d+n\d+|[svx]*[sv]d[a-z]+|xvd[a-z]+)$")
CONTAINER = re.compile(r"(?:docker[-/]|libpod-|cri-containerd-|crio-|containerd[-/])([0-9a-f]{12})[0-9a-f]{0,52}")


def lines(path):
    """The lines of a file; none where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


class HostReader:
    """Counters are given as they stand; who reads two samples makes rates of them."""

    def __init__(self):
        self.cores = os.cpu_count() or 1
        self.users = {}

    def sample(self):
        """The counters of now; a part that cannot be read is absent."""
        answer = {"cores": self.cores}
        for line in lines("/proc/stat")[:1]:
            ticks = [int(number) for number in line.split()[1:9]]
            answer["cpu_ticks"], answer["cpu_idle_ticks"] = sum(ticks), ticks[3] + ticks[4]
        memory = {line.partition(":")[0]: int(line.split()[1]) << 10 for line in lines("/proc/meminfo") if len(line.split()) > 1}
        if "MemTotal" in memory and "MemAvailable" in memory:
            answer["memory_bytes"], answer["memory_free_bytes"] = memory["MemTotal"], memory["MemAvailable"]
        disks = [line.split() for line in lines("/proc/diskstats")]
        disks = [row for row in disks if len(row) > 9 and WHOLE_DISK.match(row[2])]
        answer["disk_read_bytes"] = SECTOR_BYTES * sum(int(row[5]) for row in disks)
        answer["disk_written_bytes"] = SECTOR_BYTES * sum(int(row[9]) for row in disks)
        links = [line.partition(":") for line in lines("/proc/net/dev")[2:]]
        links = [rest.split() for name, _, rest in links if name.strip() != "lo"]
        answer["network_received_bytes"] = sum(int(row[0]) for row in links if len(row) > 8)
        answer["network_sent_bytes"] = sum(int(row[8]) for row in links if len(row) > 8)
        try:
            root = os.statvfs("/")
            answer["root_bytes"], answer["root_free_bytes"] = root.f_blocks * root.f_frsize, root.f_bavail * root.f_frsize
        except OSError:
            pass
        answer["load"] = os.getloadavg()[0]
        answer["up_s"] = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0
        return answer

    def process(self, pid):
        """Whose process it is and what runs; None where it is gone, or this user may not see it."""
        status = dict(line.partition(":")[::2] for line in lines("/proc/%d/status" % pid))
        if "Uid" not in status:
            return None
        uid = int(status["Uid"].split()[0])
        if uid not in self.users:
            try:
                self.users[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:
                self.users[uid] = str(uid)
        words = "\n".join(lines("/proc/%d/cmdline" % pid)).split("\0")
        container = CONTAINER.search("\n".join(lines("/proc/%d/cgroup" % pid)))
        return {
            "user": self.users[uid],
            "command": " ".join(word for word in words if word)[:300] or status.get("Name", "").strip(),
            "container": container.group(1) if container else "",
        }

    def sees_all_processes(self):
        """Whether /proc shows the processes of others: where it does not, one that is not there may be alive."""
        return os.path.exists("/proc/1/status") and bool(lines("/proc/1/status"))

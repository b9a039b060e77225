"""The system: release, user, tools, people, clock, size, own address."""

import fcntl
import glob
import os
import platform
import pwd
import re
import shutil
import socket
import struct
import sys
import time

from run import Unknown, command, output, read

RDMA = "/sys/class/infiniband"
ERRORS = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "local_link_integrity_errors")
TOOLS = {
    "gcc": ["-dumpfullversion"],
    "make": ["--version"],
    "cmake": ["--version"],
    "git": ["--version"],
    "tmux": ["-V"],
    "ffmpeg": ["-version"],
}


def release():
    """What os-release says, and whether this is a rehearsal host."""
    text = read("/etc/os-release")
    if text is None:
        raise Unknown("there is no /etc/os-release")
    fields = {k: v.strip("\"'") for k, _, v in (line.partition("=") for line in text.splitlines()) if k}
    return {
        "id": fields.get("ID", ""),
        "version_id": fields.get("VERSION_ID", ""),
        "pretty": fields.get("PRETTY_NAME", ""),
        "stand_in": os.path.exists("/etc/gpuprov-rehearsal"),
    }


def identity():
    """As whom the facts were gathered, and in which boot."""
    return {
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "uid": os.geteuid(),
        "boot_id": (read("/proc/sys/kernel/random/boot_id") or "").strip(),
        "over_ssh": "SSH_CONNECTION" in os.environ,
    }


def tool(name):
    """Where a tool is and its version; None where there is none."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/local/bin:/usr/bin:/bin")
    if path is None:
        return None
    _, out, err = command([path] + TOOLS[name], 20)
    version = re.search(r"[0-9]+(\.[0-9]+)*", out or err)
    return {"path": path, "version": version.group(0) if version else ""}


def users():
    """Names of the people who can log in."""
    return sorted(entry.pw_name for entry in pwd.getpwall() if 1000 <= entry.pw_uid < 60000)


def clock():
    """How long the host is up, and whether its clock follows a time server."""
    answer = output(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    up = float((read("/proc/uptime") or "").split()[0])
    return {"up_s": up, "synchronised": {"yes": True, "no": False}.get((answer or "").strip())}


def interface_of(address):
    """The network interface that has an IPv4 address (netdevice(7): SIOCGIFADDR); empty where none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))
            except OSError:  # it has no IPv4 address
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return ""


def machine():
    """What engines for workloads ask of a host: its name, what it can count on, and its own address with that interface and its MTU."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            # Nothing is sent: the kernel chooses the address that packets to elsewhere would come from (192.0.2.0/24 is for documentation).
            asked.connect(("192.0.2.1", 9))
            address = asked.getsockname()[0]
        except OSError:  # no route there: the address at which ssh came in (sshd(8))
            address = (os.environ.get("SSH_CONNECTION", "").split() + [""] * 4)[2]
    name = interface_of(address) if address else ""
    memory = re.search(r"^MemTotal:\s+(\d+) kB$", read("/proc/meminfo") or "", re.MULTILINE)
    mtu = read("/sys/class/net/%s/mtu" % name) if name else None
    if memory is None:
        raise Unknown("/proc/meminfo does not say how much memory there is")
    return {
        "hostname": socket.gethostname(),
        "cpus": os.cpu_count(),
        "memory_mib": int(memory.group(1)) >> 10,
        "address": address or None,
        "interface": name or None,
        "mtu": int(mtu) if mtu else None,
        "rdma": sorted(os.listdir(RDMA)) if os.path.isdir(RDMA) else [],
    }


def word(path):
    """The text of a file of the kernel's; empty where it cannot be read."""
    try:
        return (read(path) or "").strip()
    except OSError:
        return ""


def errors(port):
    """The counters of a port that only errors raise (sysfs-class-infiniband of the kernel's ABI documentation)."""
    texts = {name: word("%s/counters/%s" % (port, name)) for name in ERRORS}
    return {name: int(text) for name, text in texts.items() if text.isdigit()}


def rdma():
    """The ports of the devices for RDMA, with their errors so far and in one second more; and the module for the memory of GPUs."""
    folders, module = sorted(glob.glob(RDMA + "/*/ports/*")), None
    before = [errors(folder) for folder in folders]
    if folders:
        time.sleep(1)
        loaded = any(os.path.isdir("/sys/module/" + name) for name in ("nvidia_peermem", "nv_peer_mem"))
        module = "loaded" if loaded else "built" if output(["modinfo", "-F", "filename", "nvidia-peermem"]) else None
    ports = []
    for folder, old in zip(folders, before):  # noqa: B905 - Python 3.8
        device = folder.rpartition("/ports/")[0]
        port, now = {"name": os.path.basename(device) + "/" + os.path.basename(folder)}, errors(folder)
        port["kind"] = "%s %s" % (os.path.basename(os.path.realpath(device + "/device/driver")), word(device + "/device/device"))
        port.update({name: word(folder + "/" + name) for name in ("state", "phys_state", "link_layer")})
        rate = re.match(r"\d+(\.\d+)?(?= Gb/sec)", word(folder + "/rate"))  # 400 Gb/sec (4X NDR)
        port.update(active=port["state"].startswith("4:"), gb_s=float(rate.group(0)) if rate else 0.0)
        ports.append(dict(port, errors=now, grown=[name for name in now if now[name] > old.get(name, 0)]))
    return {"ports": ports, "peermem": module}


FACTS = {
    "rdma": rdma,
    "machine": machine,
    "os": release,
    "kernel": lambda: {"release": platform.release(), "machine": platform.machine()},
    "identity": identity,
    "python3": lambda: {"version": platform.python_version(), "path": sys.executable},
    "users": users,
    "clock": clock,
    **{"tool_" + name: (lambda name=name: {"found": tool(name)}) for name in TOOLS},
}

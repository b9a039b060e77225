"""The Ray cluster that this host is in: the unit, the raylet, and the TCP connections of the unit's user."""

import os
import pwd
import re
import socket
import struct

from run import UNITS, Unknown, read, unit

USER, UNIT = "gpuprov-ray", "gpuprov-ray.service"  # of the role ray
UNITS.add(UNIT)
PROC = "/proc"
ESTABLISHED, LISTENING = "01", "0A"  # include/net/tcp_states.h
MOST_BYTES = 16 << 20  # of a table; a line has 150


def endpoint(text):
    """An address and a port of /proc/net/tcp: words in the byte order of this host. An IPv4 address in IPv6's form is that address."""
    words, _, port = text.partition(":")
    raw = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    raw = raw[12:] if raw.startswith(bytes(10) + b"\xff\xff") else raw
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16)


def sockets(uid):
    """The TCP sockets of a user: the ports that are listened on, and the other ends of connections."""
    listens, connected = set(), set()
    tables = [read("%s/net/%s" % (PROC, name), MOST_BYTES) for name in ("tcp", "tcp6")]
    if tables[0] is None:
        raise Unknown("there is no %s/net/tcp" % PROC)
    for fields in [line.split() for table in tables for line in (table or "").splitlines()[1:]]:
        if len(fields) > 7 and fields[7] == str(uid):
            if fields[3] == LISTENING:
                listens.add(endpoint(fields[1])[1])
            elif fields[3] == ESTABLISHED:
                connected.add(endpoint(fields[2]))
    return listens, connected


def raylet_lives(uid):
    """Whether a raylet of a user runs, and is not only waited for."""
    for name in os.listdir(PROC):
        try:
            status = read("%s/%s/status" % (PROC, name)) if name.isdigit() else None
        except OSError:  # it has ended meanwhile, or is hidden
            continue
        said = dict(line.split(":", 1) for line in (status or "").splitlines() if ":" in line)
        if said.get("Name", "").strip() == "raylet" and said["Uid"].split()[0] == str(uid) and said["State"].split()[0] not in "ZX":
            return True
    if not os.access(PROC + "/1/status", os.R_OK):
        raise Unknown("this user may not see the processes of others")
    return False


def addresses_of(host):
    """The addresses of a host's name as this host resolves it; None where it does not."""
    try:
        return sorted({each[4][0] for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)})
    except (OSError, UnicodeError):
        return None


def ray():
    """The unit with which the host is in a cluster, and what of it lives.

    `port` is the head's, by the unit's command. `head` are the head's addresses, none where this host is the head, and null where
    its name is not resolved. `connected` are the addresses that programs of the unit's user are connected to at that port.
    """
    state = unit(UNIT)
    told = re.search(r" --address=(\S+):(\d{1,5})(?: |$)", state["command"])
    own = re.search(r" --port=(\d{1,5})(?: |$)", state["command"])
    port = int(told.group(2) if told else own.group(1)) if told or own else None
    try:
        uid = pwd.getpwnam(USER).pw_uid
    except KeyError:
        return {"unit": state, "port": port, "head": [], "raylet": False, "listens": False, "connected": []}
    listens, connected = sockets(uid)
    return {
        "unit": state,
        "port": port,
        "head": addresses_of(told.group(1)) if told else [],
        "raylet": raylet_lives(uid),
        "listens": port in listens,
        "connected": sorted({address for address, other in connected if other == port}),
    }


FACTS = {"ray": ray}

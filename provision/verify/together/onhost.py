"""What each host runs while the others run it too: it answers them, asks each of them, and ends with its standard input.

It listens on its own address on ports that the kernel chooses, for as long as the connection of `verify` lasts, and answers only those
who know this run's number.
"""

import base64
import glob
import json
import shutil
import socket
import subprocess
import sys
import threading
import time

ROUNDS = 8
WAIT_S = 3.0
HEADERS = 28  # of IPv4 and UDP: RFC 791, RFC 768
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3  # ip(7): every packet says "do not fragment", whatever the kernel believes about the way
FRAME = "<<gpuprov %s %s %s>>"


def answer_tcp(listener, nonce):
    """Tell everybody who knows the number what time it is."""
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=serve, args=(peer, nonce), daemon=True).start()


def serve(peer, nonce):
    """Tell one peer the time, as often as it asks."""
    with peer:
        peer.settimeout(WAIT_S)
        try:
            for _ in range(ROUNDS):
                if peer.recv(64) != nonce:
                    return
                peer.sendall(b"%.6f\n" % time.time())
        except OSError:
            return


def answer_udp(listener, nonce):
    """Confirm each packet that begins with the number, by its length."""
    while True:
        data, peer = listener.recvfrom(65535)
        if data[: len(nonce)] == nonce:
            try:
                listener.sendto(nonce + b"%d" % len(data), peer)
            except OSError:
                pass


def clock(peer, nonce):
    """Seconds by which a peer's clock is ahead, and how wrong that can be: the half of the shortest round trip (RFC 5905, 8)."""
    best = None
    with socket.create_connection((peer["address"], peer["tcp"]), WAIT_S) as asked:
        asked.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUNDS):
            before = time.time()
            asked.sendall(nonce)
            told = b""
            while not told.endswith(b"\n"):
                part = asked.recv(64)
                if not part:
                    raise OSError("it ended the connection")
                told += part
            after = time.time()
            ahead, error = float(told) - (before + after) / 2, (after - before) / 2
            if best is None or error < best[1]:
                best = (ahead, error)
    return {"ahead_s": best[0], "error_s": best[1]}


def passes(peer, own, nonce, size):
    """Whether a packet of this many bytes, IP header included, reaches a peer in one piece."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.bind((own, 0))
        asked.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        asked.settimeout(WAIT_S / 6)
        for _ in range(3):
            try:
                asked.sendto(nonce + b"\0" * (size - HEADERS - len(nonce)), (peer["address"], peer["udp"]))
                if asked.recv(64) == nonce + b"%d" % (size - HEADERS):
                    return True
            except OSError:
                continue
    return False


def resolve(name):
    """The IPv4 addresses of a name; none where it has none."""
    try:
        return sorted({entry[4][0] for entry in socket.getaddrinfo(name, None, socket.AF_INET)})
    except OSError:
        return []


def ask(peer, own, nonce, mtu):
    """What this host finds of one peer."""
    said = {"resolved": resolve(peer["hostname"]), "clock": None, "tcp": "", "ssh": "", "small": False, "large": None}
    try:
        said["clock"] = clock(peer, nonce)
    except (OSError, ValueError) as error:
        said["tcp"] = str(error) or type(error).__name__
    try:
        socket.create_connection((peer["address"], 22), WAIT_S).close()
    except OSError as error:
        said["ssh"] = str(error) or type(error).__name__
    said["small"] = passes(peer, own, nonce, 128)
    if said["small"] and mtu:
        said["large"] = passes(peer, own, nonce, min(mtu, 65535))
    return said


def fabric():
    """Whether libfabric finds an EFA for reliable datagrams (fi_info(1)); None where there is no such program."""
    # EFA's installer puts it below /opt, in a folder of the vendor's name.
    program = shutil.which("fi_info", path=":".join([*glob.glob("/opt/*/efa/bin"), "/usr/local/bin", "/usr/bin", "/bin"]))
    if program is None:
        return None
    words = [program, "-p", "efa", "-t", "FI_EP_RDM"]
    return subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10).returncode == 0


def main(s):
    """Listen, say where, read who the others are, ask them all at once, and wait for the end."""
    request = json.loads(s.readline().decode())
    number, own = request["nonce"], request["address"]
    nonce = number.encode()
    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    tcp.bind((own, 0))
    udp.bind((own, 0))
    tcp.listen(256)
    for target, listener in ((answer_tcp, tcp), (answer_udp, udp)):
        threading.Thread(target=target, args=(listener, nonce), daemon=True).start()

    def tell(kind, data):
        packed = base64.b64encode(json.dumps(data).encode()).decode()
        print(FRAME % (number, kind, packed), flush=True)

    tell("ready", {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]})
    peers = json.loads(s.readline().decode() or "[]")
    answers = {}

    def note(peer):
        answers[peer["name"]] = ask(peer, own, nonce, request["mtu"])

    workers = [threading.Thread(target=note, args=(peer,), daemon=True) for peer in peers]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(8 * WAIT_S)
    try:
        efa = fabric()
    except (OSError, subprocess.SubprocessError):
        efa = None
    tell("done", {"peers": dict(answers), "own": resolve(socket.gethostname()), "efa": efa})
    s.read()  # the others may still ask
    sys.stdout.flush()

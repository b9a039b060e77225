"""What each host runs for the sums over several hosts: a process of PyTorch for each of its GPUs, ended with its standard input.

The first host's first process is where the others meet: on the host's own address, at a port that the kernel chooses.
"""

import base64
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

FRAME = "<<gpuprov %s %s %s>>"
SIOCGIFADDR = 0x8915  # netdevice(7)


def interface(address):
    """The name of the interface that has an address; None where none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(asked.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return None


def start(interpreter, code, request, environment):
    """One process of PyTorch, which reads its request from standard input."""
    process = subprocess.Popen(
        [interpreter, "-I", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    RUNNING.append(process)
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it ended already, and its standard error says why
    return process


def run(order, address, interpreter):
    """All processes of this host; the answer of the first, or why there is none."""
    name = interface(address)
    environment = dict(os.environ)
    if name is not None:  # otherwise both libraries choose one by themselves, such as a container's bridge
        environment.update({"NCCL_SOCKET_IFNAME": "=" + name, "GLOO_SOCKET_IFNAME": name})
    before = sum(order["counts"][: order["host"]])
    started = []
    try:
        for gpu in range(order["counts"][order["host"]]):
            request = dict(order["sums"], counts=order["counts"], host=order["host"], gpu=gpu, rank=before + gpu, meet=order["meet"])
            started.append(start(interpreter, order["code"], request, environment))
        results = [each.communicate() for each in started]
    except OSError as error:
        return {"figures": None, "why": "%s: %s" % (interpreter, error.strerror or error)}
    finally:
        for each in started:
            if each.poll() is None:
                each.kill()
    for each, (_, said) in zip(started, results):
        if each.returncode != 0:
            lines = said.decode("utf-8", "replace").strip().splitlines()
            return {"figures": None, "why": (lines[-1] if lines else "it ended with %d" % each.returncode)[-300:]}
    return {"figures": json.loads(results[0][0].decode().strip().splitlines()[-1]), "why": ""}


RUNNING = []


def end_with(s):
    """Kill what runs when the connection is over, and what is started after that."""
    s.read()
    while True:
        for each in RUNNING:
            if each.poll() is None:
                each.kill()
        time.sleep(0.1)


def main(s):
    """Say where the others can meet here, read the order, and say what was measured."""
    request = json.loads(s.readline().decode())
    meeting = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    meeting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    meeting.bind((request["address"], 0))

    def tell(kind, data):
        packed = base64.b64encode(json.dumps(data).encode()).decode()
        print(FRAME % (request["nonce"], kind, packed), flush=True)

    tell("ready", {"port": meeting.getsockname()[1]})
    order = json.loads(s.readline().decode() or "null")
    meeting.close()
    threading.Thread(target=end_with, args=(s,), daemon=True).start()
    why = "not all hosts were ready"
    tell("done", run(order, request["address"], request["interpreter"]) if order else {"figures": None, "why": why})
    sys.stdout.flush()

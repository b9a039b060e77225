"""The process of a host that a client speaks with: it looks whether the GPUs are free, and lets one worker a GPU do the recipes.

It ends with its connection, and the workers end with it. It writes no file and changes no setting.
"""

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import zlib

import tools
from meter import BenchMeter

BUSY = 5  # per cent of the time before; a GPU that nobody uses runs nothing
START_S = 90  # PyTorch from a cold disk
GRACE_S = 20


class BenchCrew:
    """The workers, and what comes from them."""

    def __init__(self, request, packed, count):
        """Start one a GPU. It sees all GPUs in NVML's order, whatever this environment leaves visible."""
        self.queue, self.lost, self.last, self.mark = queue.Queue(), {}, [""] * count, request["nonce"].encode()
        self.request, self.packed, self.again = request, packed, 0
        environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        environment.update(CUDA_DEVICE_ORDER="PCI_BUS_ID")
        self.environment, self.workers = environment, [None] * count
        for rank in range(count):
            self.start(rank)

    def start(self, rank):
        """Start a worker."""
        request, pipe = self.request, subprocess.PIPE
        argv = [request["python"], "-W", "ignore", "-IBc", request["first"]]
        worker = self.workers[rank] = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=self.environment, cwd="/")
        mine = json.dumps({"main": "worker", "nonce": request["nonce"], "rank": rank, "world": len(self.workers)}).encode()
        loader = json.loads(zlib.decompress(self.packed).decode())["loader"].encode()
        self.write(rank, b"".join(b"%d\n%s" % (len(part), part) for part in (loader, self.packed, mine)))
        threading.Thread(target=self.listen, args=(rank, worker), daemon=True).start()
        threading.Thread(target=self.keep_last, args=(rank, worker.stderr), daemon=True).start()

    def revive(self):
        """Start the workers anew that were lost, a few times: one recipe that hangs is no reason to lose the others."""
        ranks = sorted(self.lost)
        if ranks and self.again < 3:
            self.again += 1
            for rank in ranks:
                self.workers[rank].kill()
                self.workers[rank].wait()
                self.start(rank)
                del self.lost[rank]
            self.ask(ranks, {"processor": self.request["processor"]}, START_S, lambda *_: None)

    def write(self, rank, data):
        """Send something to a worker; one that is gone is noticed by `listen`."""
        try:
            self.workers[rank].stdin.write(data)
            self.workers[rank].stdin.flush()
        except OSError:
            pass

    def listen(self, rank, worker):
        """Pass on what a worker says; None when it ended."""
        for line in worker.stdout:
            word, _, text = line.partition(b" ")
            if word == self.mark:
                self.queue.put((rank, worker, json.loads(text.decode())))
        self.queue.put((rank, worker, None))

    def keep_last(self, rank, stream):
        """Keep the last line of a worker's complaints."""
        for line in stream:
            self.last[rank] = line.decode("utf-8", "replace").strip()[:200] or self.last[rank]

    def ask(self, ranks, order, limit_s, take, look=lambda: None):
        """Let some workers do an order at the same time; their figures go to `take`. Returns rank -> its last message."""
        answers = {rank: {"why": self.lost[rank]} for rank in ranks if rank in self.lost}
        waiting, end = set(ranks) - set(answers), time.monotonic() + limit_s
        for rank in waiting:
            self.write(rank, json.dumps(order).encode() + b"\n")
        while waiting and time.monotonic() < end:
            look()
            try:
                rank, worker, message = self.queue.get(timeout=0.5)
            except queue.Empty:
                continue
            if rank not in waiting or worker is not self.workers[rank]:  # a word of one that was replaced
                continue
            if message is None:
                time.sleep(0.2)
                message = {"kind": "done", "why": "the process ended (%s)" % (self.last[rank] or "without a word")}
                self.lost[rank] = message["why"]
            if message["kind"] == "done":
                answers[rank] = message
                waiting.discard(rank)
                if message.get("broken"):
                    self.lost[rank] = message["why"]
            else:
                take(rank, message)
        for rank in waiting:
            self.workers[rank].kill()
            self.lost[rank] = "it did not end within %d s" % limit_s
            answers[rank] = {"why": self.lost[rank]}
        return answers

    def end(self):
        """Leave no process behind."""
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.wait()


def leave_with_the_connection():
    """End when standard input closes, which is what ssh does when the other side is gone; the workers see theirs close."""
    while sys.stdin.buffer.read(4096):
        pass
    tools.leave()
    os._exit(0)


def free_port():
    """A port of the loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def rounds(step, count):
    """The groups of GPUs that do a step at the same time, one group after another."""
    everyone = list(range(count))
    if step["ranks"] == "each":
        return [[rank] for rank in everyone]
    if step["ranks"] == "sums":
        return [everyone[:size] for size in sorted({2, 4, 8, count}) if 2 <= size <= count]
    return [everyone[:1] if step["ranks"] == "first" else everyone]


def holders(meter, ours=()):
    """Who else uses which GPU: [GPU, process id, user's number, command]."""
    return [[index, *user] for index in meter.handles for user in meter.users(index) or () if user[0] not in ours]


def unseen(meter):
    """The GPUs that run something whose process the driver does not list. It counts a moment back, so a second look follows the first."""
    working = [index for index in meter.handles if (meter.busy(index) or 0) >= BUSY]
    if working:
        time.sleep(1.5)
    return [index for index in working if (meter.busy(index) or 0) >= BUSY]


def main(request, packed):
    """Do what the request says; every line that is printed begins with its nonce."""
    began = time.monotonic()
    threading.Thread(target=leave_with_the_connection, daemon=True).start()

    def say(**message):
        try:
            sys.stdout.write("%s %s\n" % (request["nonce"], json.dumps(dict(message, at=round(time.monotonic() - began, 2)))))
            sys.stdout.flush()
        except OSError:
            os._exit(0)

    say(kind="hello", machine=machine())

    def refuse(**message):
        say(kind="refused", **message)
        os._exit(0)

    meter = BenchMeter()
    if not os.path.exists(request["python"]):
        refuse(code="no-torch", why="there is no %s" % request["python"])
    if (meter.lost or not meter.handles) and not request["processor"]:  # without one of its GPUs a host is not the host of its figures
        refuse(code="lost" if meter.lost else "no-gpu", why="; ".join(meter.lost.values()) or meter.why or "NVML lists no GPU")
    before = holders(meter)
    used = before or [[index, 0, "", ""] for index in unseen(meter)]
    if used and not request["force"]:
        refuse(code="busy", why="a GPU is in use", holders=used[:20])
    count = len(meter.handles) or 1
    crew = BenchCrew(request, packed, count)
    try:
        started = crew.ask(range(count), {"processor": request["processor"]}, START_S, lambda *_: None)
        bad = next((answer["why"] for answer in started.values() if answer.get("why")), "")
        if bad:
            crew.end()
            refuse(code="no-torch", why=bad)
        known = {name: started[0][name] for name in ("torch", "cuda", "cores", "near")}
        orders = {name: value[:100] for name, value in sorted(os.environ.items()) if name.startswith("NCCL_")}
        gpus = [dict(meter.identity(index), errors=meter.errors(index)) for index in meter.handles]
        say(kind="start", gpus=gpus, held=used[:20], environment=orders, processor=processor(), **known)
        steps(request, crew, meter, say, {user[1] for user in before})
        say(kind="end", errors=[meter.errors(index) for index in meter.handles])
    finally:
        crew.end()
    os._exit(0)  # a thread still waits for standard input


def steps(request, crew, meter, say, before):
    """One step after another; after each, who else was seen on a GPU meanwhile."""
    seen = {}
    count = len(crew.workers)

    def look():
        # In a container our own workers are listed by ids that do not exist here; a stranger has one that does, or is one too many.
        strange = holders(meter, {worker.pid for worker in crew.workers} | before)
        hidden = [holder for holder in strange if not os.path.exists("/proc/%d" % holder[1])]
        for holder in [each for each in strange if each not in hidden] + hidden[count * count :]:
            seen[tuple(holder[:2])] = holder

    def tell(rank, message):
        say(**dict(message, gpu=rank))

    for number, step in enumerate(request["steps"]):
        if step["ranks"] == "host":
            continue
        groups = rounds(step, count)
        crew.revive()
        for ranks in groups:
            seconds = step["seconds"] / len(groups)
            seen.clear()
            say(kind="step", number=number, recipe=step["recipe"], ranks=ranks, seconds=seconds)
            options = dict(step.get("options", {}), ranks=ranks, port=free_port())
            order = {"recipe": step["recipe"], "seconds": seconds, "options": options, "alone": len(ranks) == 1}
            limit = seconds * 1.5 + GRACE_S
            answers = crew.ask(ranks, order, limit, tell, look)
            whys = {str(rank): answer["why"] for rank, answer in answers.items() if answer.get("why")}
            say(kind="done", number=number, recipe=step["recipe"], ranks=ranks, whys=whys, others=list(seen.values())[:20])
    programs(request, crew, len(meter.handles), say)


def programs(request, crew, gpus, say):
    """What the host has of others comes last, when no process of ours is left on a GPU."""
    for number, step in enumerate(request["steps"]):
        if step["ranks"] == "host":
            crew.end()
            say(kind="step", number=number, recipe=step["recipe"], ranks=[], seconds=step["seconds"])
            say(**tools.call(step["recipe"], gpus, step["seconds"] * 1.5 + GRACE_S))
            say(kind="done", number=number, recipe=step["recipe"], ranks=[], whys={}, others=[])


def machine():
    """The number that the system gave itself; empty where it has none."""
    try:
        with open("/etc/machine-id") as file:
            return file.read(100).strip()
    except OSError:
        return ""


def processor():
    """The name of the processor, by the kernel."""
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.partition(":")[2].strip()[:100] for line in file if line.startswith("model name")), "")
    except OSError:
        return ""

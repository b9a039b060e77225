"""One GPU's process, in the PyTorch of the host. It takes orders on standard input, and ends when that closes, however it went."""

import importlib
import json
import os
import sys
import threading
import time

from meter import BenchMeter
from timing import Bench

# What PyTorch and recipes raise; memory that is full is a RuntimeError.
FAILURES = (RuntimeError, OSError, ValueError, TypeError, AttributeError, LookupError, ImportError, ArithmeticError, AssertionError)


def orders():
    """Orders as they come. Reading stands in a thread of its own: a closed input ends the process in the middle of any work."""
    waiting, lines = threading.Semaphore(0), []

    def listen():
        for line in iter(sys.stdin.buffer.readline, b""):
            lines.append(json.loads(line.decode()))
            waiting.release()
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        waiting.acquire()
        yield lines.pop(0)


def words(error):
    """An error in a line."""
    return ("%s: %s" % (type(error).__name__, (str(error).strip().splitlines() or [""])[0]))[:300]


def main(request, _packed):
    """Do one recipe after another, and say each figure as a line."""
    rank, mark = request["rank"], request["nonce"]
    coming = orders()  # before PyTorch is imported, which takes long

    def say(**message):
        sys.stdout.write("%s %s\n" % (mark, json.dumps(message)))
        sys.stdout.flush()

    def run():
        first = next(coming)
        # It takes seconds: the orders are listened to meanwhile.
        import torch

        meter = BenchMeter([rank])
        allowed, near = os.sched_getaffinity(0), meter.cores(rank) if not meter.why else set()
        if torch.cuda.is_available():
            torch.cuda.set_device(rank)
            os.sched_setaffinity(0, near & allowed or allowed)
        elif not first.get("processor"):
            say(kind="done", why="PyTorch %s sees no GPU" % torch.__version__)
            return
        meter.start()
        say(kind="done", torch=torch.__version__, cuda=torch.version.cuda or "", cores=len(allowed), near=len(near & allowed))
        for order in coming:
            bench = Bench(
                torch, rank, meter, say, world=request["world"], allowed=allowed, near=near & allowed or allowed, **order["options"]
            )
            bench.alone, bench.recipe = order["alone"], order["recipe"]
            why, began, broken = "", time.monotonic(), False
            try:
                importlib.import_module(order["recipe"]).run(bench, order["seconds"])
            except FAILURES as error:
                why = words(error)
            try:
                if bench.cuda:
                    torch.cuda.synchronize()
                    torch.cuda.empty_cache()
            except FAILURES as error:  # after a fault on the GPU every call of this process fails
                why, broken = why or words(error), True
            say(kind="done", why=why, seconds=round(time.monotonic() - began, 2), broken=broken)

    run()

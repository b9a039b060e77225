"""Measure this host at an interval, one line of JSON a sample, for as long as somebody reads.

It ends with its connection: when standard input closes, or nobody reads its output. It writes no file and starts no process.
"""

import json
import os
import sys
import threading
import time

from gpus import GpuReader
from host import HostReader


def leave_with_the_connection():
    """End the process when its standard input closes, which is what ssh does when the other side is gone, however it went."""
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


def main(request):
    """Print a sample at once, then one an interval. `request` holds interval_s, and nonce, which every line begins with."""
    threading.Thread(target=leave_with_the_connection, daemon=True).start()
    host, gpus, number = HostReader(), GpuReader(), 0
    due = time.monotonic()
    while True:
        began = time.process_time()
        sample = {"number": number, "at": time.time(), "host": host.sample(), "gpus": gpus.sample(number), "why": gpus.why}
        sample["events"] = gpus.events()
        sample["processes"] = gpus.processes(host)
        sample["cost_s"] = round(time.process_time() - began, 4)
        try:
            sys.stdout.write("%s %s\n" % (request["nonce"], json.dumps(sample, allow_nan=False)))
            sys.stdout.flush()
        except OSError:
            os._exit(0)
        number += 1
        # A sample that took longer than the interval is not made up for.
        due = max(due + request["interval_s"], time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))

"""Gather all facts at once, each with a deadline of its own, and print them in a frame that noise around it cannot break."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
import zlib

FACT_S = 30
TIERS = ("quick", "standard", "perf")
# The first tier that gathers a fact; what is not named is gathered by all. Quick imports no framework and starts no encoder (and no
# profiler: see `gpu.counters`); what perf adds loads the GPU, and is run by itself when all else has ended.
FIRST_TIER = {
    "opencv": "standard",
    "pytorch": "standard",
    "tensorflow": "standard",
    "jax": "standard",
    "encoders": "standard",
    "perf": "perf",
}
REQUEST = {"tier": "standard", "until": time.monotonic() + FACT_S}


class Unknown(Exception):  # noqa: N818 - an answer, not an error
    """A fact that could not be observed, with the reason."""


def command(argv, timeout_s=FACT_S, env=None, stdin=None):
    """Run a command; returns (exit code, standard output, standard error). A missing one raises FileNotFoundError."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL if stdin is None else None,
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            env=env,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unknown("%s did not end within %d s" % (argv[0], timeout_s)) from None
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def read(path, limit=1 << 20):
    """The text of a file, or None where there is none; one that may not be read raises PermissionError."""
    try:
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def gather(facts, deadline_s):
    """Run every fact in a thread; returns name -> {"value": ...} or {"unknown": reason}, and always every name."""
    answers = {}

    def observe(name, function):
        try:
            answers[name] = {"value": function()}
        except Unknown as reason:
            answers[name] = {"unknown": str(reason)}
        except Exception as error:  # noqa: BLE001 - a fact that breaks must not take the others along; its reason travels
            answers[name] = {"unknown": "%s: %s" % (type(error).__name__, error)}

    threads = [threading.Thread(target=observe, args=item, daemon=True) for item in facts.items()]
    until = time.monotonic() + deadline_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = {"unknown": "not observed within %d s" % round(max(0, deadline_s))}
    return {name: answers.get(name, late) for name in facts}


def gather_tier(facts, tier, until):
    """Run the facts of a tier, first all that may run side by side, then those that must be alone; of the others only the reason."""
    rank = {name: TIERS.index(FIRST_TIER.get(name, "quick")) for name in facts}
    answers = gather({name: facts[name] for name in facts if rank[name] <= min(1, TIERS.index(tier))}, until - time.monotonic())
    for name in facts:
        if rank[name] > TIERS.index(tier):
            answers[name] = {"unknown": "not gathered by tier %s" % tier}
        elif rank[name] > 1:
            answers.update(gather({name: facts[name]}, until - time.monotonic()))
    return answers


def main(request, facts):
    """Gather and print. `request` holds the nonce of the frame, the overall deadline, and the tier (standard where it says none)."""
    started = time.time()
    REQUEST.update(request, until=time.monotonic() + request["deadline_s"])
    answer = {
        "gathered_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "facts": gather_tier(facts, REQUEST["tier"], REQUEST["until"]),
    }
    answer["elapsed_s"] = round(time.time() - started, 3)
    packed = base64.b64encode(zlib.compress(json.dumps(answer).encode()))
    sys.stdout.write("\n<<gpuprov %s %d>>%s<<end>>\n" % (request["nonce"], len(packed), packed.decode()))
    sys.stdout.flush()
    os._exit(0)  # a fact that hangs must not keep the connection

"""Runs a program that the host has of somebody else, and passes on what it prints; the client reads it."""

import contextlib
import glob
import importlib
import os
import shutil
import signal
import subprocess
import threading
import time

MOST = 64 * 1024
LAST_S = 10  # to give up by itself, and to write its last words
# Their variables would choose other GPUs, other groups or another gate than we say.
HIDDEN = ("CUDA_VISIBLE_DEVICES", "NCCL_TESTS_")
running = []


def call(name, gpus, limit_s):
    """The message of one program: where it lies, empty if it is not installed, how it ended, and what it printed."""
    recipe, began = importlib.import_module(name), time.monotonic()
    path, words = find(recipe), recipe.words(gpus)
    if not path or words is None:
        return {"kind": "tool", "tool": name, "path": path, "gpus": gpus}
    environment = {key: value for key, value in os.environ.items() if not key.startswith(HIDDEN)}
    environment.update(LC_ALL="C", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    message = {"kind": "tool", "tool": name, "path": path, "gpus": gpus}
    try:
        message.update(execute([path] + words, environment, limit_s))
    except OSError as error:
        message["error"] = ("%s" % error)[:300]
    message["seconds"] = round(time.monotonic() - began, 1)
    return message


def find(recipe):
    """Where a program lies; of several builds the last by name."""
    found = shutil.which(recipe.PROGRAM)
    others = sorted(path for place in recipe.PLACES for path in glob.glob(place) if os.access(path, os.X_OK))
    return (found or (others or [""])[-1])[:300]


def execute(argv, environment, limit_s):
    """Run it for a limited time, and keep a limited part of what it prints."""
    pipe, kept = subprocess.PIPE, {"output": b"", "error": b""}
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment, cwd="/", start_new_session=True)
    running.append(child)

    def keep(name, stream):
        for part in iter(lambda: stream.read1(4096), b""):
            kept[name] += part[: max(0, MOST + 1 - len(kept[name]))]

    readers = [threading.Thread(target=keep, args=pair, daemon=True) for pair in (("output", child.stdout), ("error", child.stderr))]
    for reader in readers:
        reader.start()
    late = False
    try:
        child.wait(limit_s)
    except subprocess.TimeoutExpired:
        late = True
        end(child)
    for reader in readers:
        reader.join(LAST_S)
    running.remove(child)
    last = kept["error"].decode("utf-8", "replace").strip().splitlines()
    output = kept["output"].decode("utf-8", "replace")
    return {
        "code": child.returncode,
        "late": late,
        "output": output if len(kept["output"]) <= MOST and len(output) <= MOST else "",
        "cut": len(kept["output"]) > MOST,
        "error": (last or [""])[-1][:300],
    }


def end(child):
    """End a program and what it started: first by asking, as DCGM then stops the diagnostic in its service as well."""
    stop(child, signal.SIGTERM)
    try:
        child.wait(LAST_S)
    except subprocess.TimeoutExpired:
        stop(child, signal.SIGKILL)
        child.wait()


def stop(child, how):
    """Send a signal to a program and what it started."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, how)


def leave():
    """The connection is gone: nothing that we started goes on."""
    for child in running:
        stop(child, signal.SIGTERM)

"""`gpuprov-host run`: what answers on a host to the client that wants it set up, and stays in touch for as long as the run takes.

It is sent over the connection and runs as root with the standard library of Python 3.7 or later. The run itself is a process of its own
(`work.py`, from the bundle) that a lost connection does not end. Its words to the client are lines of JSON behind a nonce.
"""

import errno
import io
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time

from provision.converge.onhost import bundle

BEAT_S = 10.0
POLL_S = 0.1
START = "import sys; sys.path.insert(0, sys.argv[1]); from provision.converge.onhost.work import main; main(*sys.argv[2:])"


class Inbox:
    """What the client sends: bytes of a known number, and lines."""

    def __init__(self, descriptor):
        self.descriptor, self.held, self.closed = descriptor, b"", False

    def exact(self, size):
        """So many bytes; fewer where the connection ended before."""
        while len(self.held) < size and not self.closed:
            self._more(None)
        data, self.held = self.held[:size], self.held[size:]
        return data

    def line(self, wait_s):
        """The next line; empty where none came in time."""
        if b"\n" not in self.held and not self.closed:
            self._more(wait_s)
        line, mark, rest = self.held.partition(b"\n")
        if not mark:
            return b""
        self.held = rest
        return line

    def _more(self, wait_s):
        if select.select([self.descriptor], [], [], wait_s)[0]:
            data = os.read(self.descriptor, 1 << 20)
            self.held += data
            self.closed = not data


class HostSession:
    """One connection of a client."""

    def __init__(self, request, inbox, write):
        self.request, self.inbox, self.write = request, inbox, write
        self.store = bundle.Store(request["root"])
        self.runs = request["runs"]
        os.makedirs(self.runs, mode=0o700, exist_ok=True)

    def say(self, **words):
        """A line to the client."""
        self.write(("%s %s\n" % (self.request["nonce"], json.dumps(words))).encode())

    def answer(self):
        """Attach to the run that goes on, or start one."""
        with open("/proc/sys/kernel/random/boot_id") as file:
            self.say(boot=file.read().strip())
        least = tuple(int(part) for part in self.request["python"].split("."))
        if sys.version_info[:2] < least:
            return self.say(cannot="python", has="%d.%d" % sys.version_info[:2])
        lock = self.locked()
        if lock is None:
            return None
        with lock:
            known = self.run()
            if self.request["run"] and known.get("id") == self.request["run"]:
                return self.follow(known)
            place = self.bundle()
            if place is None:
                return None
            run = self.start(place, lock)
        return self.follow(run)

    def locked(self):
        """The lock; None where the client was served meanwhile: it has followed the same run, or has gone."""
        told = 0.0
        while True:
            lock = self.store.lock()
            if lock is not None:
                return lock
            run = self.run()
            if run.get("key") == self.request["key"] and self.lives(run):
                self.say(attached=run["id"])
                self.follow(run)
                return None
            if time.monotonic() - told > BEAT_S:
                told = time.monotonic()
                self.say(waiting=run.get("started", 0))
            if self.inbox.line(POLL_S) == b"stop":
                self.say(end={"stopped": True})
                return None
            if self.inbox.closed:
                return None

    def run(self):
        """The last run of this boot."""
        try:
            with open(os.path.join(self.runs, "run.json")) as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    def bundle(self):
        """The folder of the bundle, checked and switched to; None where the client has gone."""
        asked = self.request
        statement, signature = asked["statement"].encode(), asked["signature"].encode()
        seen = self.store.seen(asked["principal"])
        now = asked["now"] or time.time()
        stated = bundle.check(statement, signature, asked["signers"], asked["principal"], asked["minimum"], now, seen, self.runs)
        needed = [name for name in bundle.LAYERS if not self.store.has(stated["layers"][name]["sha256"])]
        self.say(need=needed)
        for name in needed:
            layer = stated["layers"][name]
            data = self.inbox.exact(min(layer["bytes"], bundle.MOST_LAYER + 1))
            if self.inbox.closed and len(data) < layer["bytes"]:
                return None
            bundle.check_layer(data, layer)
            self.store.add(io.BytesIO(data), layer)
        return self.store.switch(statement, signature, stated, asked["principal"])

    def start(self, place, lock):
        """Start the run in a session of its own. The lock is its own from now on, and ends with it."""
        for name in os.listdir(self.runs):  # no run goes on: the lock is ours
            subprocess.run(["rm", "-rf", "--", os.path.join(self.runs, name)], check=True)
        run = {"id": secrets.token_hex(8), "key": self.request["key"], "started": int(time.time())}
        folder = os.path.join(self.runs, run["id"])
        os.mkdir(folder, 0o700)
        engine, config = (os.path.realpath(os.path.join(place, name)) for name in bundle.LAYERS)
        with open(os.path.join(folder, "log"), "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", START, engine, folder, config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=[lock.fileno()], cwd="/",
            )  # fmt: skip
        run["pid"] = process.pid
        beside = os.path.join(self.runs, ".run.json")
        with open(beside, "w") as file:
            json.dump(run, file)
        os.replace(beside, os.path.join(self.runs, "run.json"))
        self.say(started=run["id"])
        self.child = process
        return run

    def follow(self, run):
        """Pass on what the run tells, until it ends or the client goes."""
        folder, beat = os.path.join(self.runs, run["id"]), time.monotonic()
        left = self.request["after"] if run["id"] == self.request["run"] else 0
        told = os.path.join(folder, "told")
        while not os.path.exists(told) and self.lives(run):
            time.sleep(POLL_S / 4)
        with open(told if os.path.exists(told) else os.devnull, "rb") as file:
            held = b""
            while True:
                lives = self.lives(run)  # asked before the read: what a run tells at its end is read after it
                part = file.read(1 << 16)
                held += part
                *lines, held = held.split(b"\n")
                for line in lines:
                    left -= 1
                    if left < 0:
                        self.write(b"%s %s\n" % (self.request["nonce"].encode(), line))
                    if line.startswith(b'{"end"'):
                        return self.ended(line)
                if part:
                    continue
                if not lives:
                    return self.say(end={"killed": True, "output": tail(os.path.join(folder, "log"))})
                if self.inbox.line(POLL_S) == b"stop":
                    os.kill(run["pid"], signal.SIGINT)
                if self.inbox.closed:
                    return None
                if time.monotonic() - beat > BEAT_S:
                    beat = time.monotonic()
                    self.say()

    def ended(self, line):
        """Restart the machine where the run asks for that; a moment later, so that the client hears of it."""
        if json.loads(line)["end"].get("reboot"):
            subprocess.Popen(["sh", "-c", "sleep 1; systemctl reboot || reboot"], start_new_session=True, stdin=subprocess.DEVNULL)

    def lives(self, run):
        """Whether the process of a run lives, and is that of the run."""
        child = getattr(self, "child", None)
        if child is not None:
            return child.poll() is None
        try:
            with open("/proc/%d/cmdline" % run["pid"], "rb") as file:
                return run["id"].encode() in file.read(1 << 16)
        except (FileNotFoundError, ProcessLookupError):
            return False


def tail(path):
    """The end of a file, as text."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 4000))
            return file.read(4000).decode(errors="replace")
    except OSError:
        return ""


def main(request):
    """Answer one client."""
    out = sys.stdout.buffer

    def write(data):
        out.write(data)
        out.flush()

    def say(**words):
        write(("%s %s\n" % (request["nonce"], json.dumps(words))).encode())

    try:
        HostSession(request, Inbox(0), write).answer()
    except BrokenPipeError:  # the client has gone; a run goes on
        os._exit(0)
    except bundle.RefusedBundle as refused:
        say(refused=refused.code, why=str(refused))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        say(refused="disk-full" if full else "system", why=str(error))

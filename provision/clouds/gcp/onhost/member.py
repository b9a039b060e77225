"""What a member of a fleet does at each boot: fetch its program, run it, post the evidence, and answer the group's health check.

It is sent in the user data and runs as root with the standard library of Python 3.7 or later. It trusts the digest in its user data and
nothing else: the store only has bytes. Its token is that of the machine's service account, from the metadata server. All members have the
same account, so each lets Google sign who it is, for the digest of its evidence:
docs.cloud.google.com/compute/docs/instances/verifying-instance-identity.

It has no rights over its group. One that failed powers itself off, and the group makes it anew. After so many failures it stays, and
answers that it does not serve: so nothing is made anew that would fail again. The same where its store refuses all it asks: then nothing
can be counted, and the group makes nobody anew who only does not serve.
"""

import datetime
import hashlib
import http.server
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

CONFIG = "/etc/gpuprov/member.json"
STATE = "/run/gpuprov-member"
MOST_PROGRAM = 64 * 1024 * 1024
MOST_OUTPUT = 4 * 1024 * 1024


class StoreRefused(Exception):
    """The store or the metadata server answered with an error."""

    def __init__(self, status, text):
        self.status = status
        super().__init__("%s %s" % (status, text[:200]))


def fetch(method, url, headers, body=None, most=MOST_PROGRAM):
    """One request; bytes, at most so many."""
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            data = reply.read(most + 1)
    except urllib.error.HTTPError as error:
        raise StoreRefused(error.code, error.read(65536).decode(errors="replace")) from error
    if len(data) > most:
        raise ValueError("the answer is larger than %d bytes" % most)
    return data


def patiently(act, patience_s):
    """Do something again while the network or the store fails; pauses grow and differ, so that members do not ask in step."""
    pause, end = 1.0, time.monotonic() + patience_s
    while True:
        try:
            return act()
        except (OSError, StoreRefused) as error:
            lasting = isinstance(error, StoreRefused) and error.status < 500 and error.status not in (408, 429)
            if lasting or time.monotonic() > end:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, 60.0)


class ThisMember:
    """This machine, as Google knows it."""

    def __init__(self, config):
        self.config = config
        self.store_url = config.get("endpoint") or "https://storage.googleapis.com"
        self.metadata_url = config.get("endpoint") or "http://metadata.google.internal"
        self.instance = self.metadata("instance/id")

    def metadata(self, path):
        """A value of the metadata server."""
        return fetch("GET", self.metadata_url + "/computeMetadata/v1/" + path, {"Metadata-Flavor": "Google"}).decode()

    def identity(self, audience):
        """Google's signature on who this machine is."""
        query = urllib.parse.urlencode({"audience": audience, "format": "full"})
        return self.metadata("instance/service-accounts/default/identity?" + query).strip()

    def store(self, method, path, body=None):
        """A request to Cloud Storage, repeated while it fails."""

        def ask():
            token = json.loads(self.metadata("instance/service-accounts/default/token"))["access_token"]
            headers = {"Authorization": "Bearer " + token, "Content-Type": "application/octet-stream"}
            return fetch(method, self.store_url + path, headers, body)

        return patiently(ask, self.config["patience_s"])

    def read(self, name, missing=(403, 404)):
        """An object's bytes, or None where there is none: which Cloud Storage may call forbidden to whoever may not list the bucket."""
        key = urllib.parse.quote(self.config["prefix"] + name, safe="")
        try:
            return self.store("GET", "/storage/v1/b/%s/o/%s?alt=media" % (self.config["bucket"], key))
        except StoreRefused as error:
            if error.status in missing:
                return None
            raise

    def post_once(self, name, body):
        """Write an object that nobody has written; whether it was this machine that wrote it."""
        query = urllib.parse.urlencode({"uploadType": "media", "name": self.config["prefix"] + name, "ifGenerationMatch": "0"})
        try:
            self.store("POST", "/upload/storage/v1/b/%s/o?%s" % (self.config["bucket"], query), body)
        except StoreRefused as error:
            # Whoever may create and not delete can also get 403 where an object is there.
            if error.status == 412 or (error.status == 403 and self.read(name) is not None):
                return self.read(name) == body
            raise
        return True

    def slot(self, number):
        """The name of one of the failures that are counted."""
        return "failures/%s/%s/%d" % (self.config["fleet"], self.config["digest"], number)

    def broken_off(self):
        """Whether so many members failed with this program that it is not run any more."""
        return self.read(self.slot(self.config["breaker"])) is not None

    def count_failure(self):
        """Take the next slot, and say whether one is left; nobody can take one twice, so the count holds without a listing."""
        body = ("%s %s\n" % (self.instance, boot_id())).encode()
        for number in range(1, self.config["breaker"] + 1):
            if self.post_once(self.slot(number), body):
                return number < self.config["breaker"]
        return False

    def program(self):
        """The program of the digest, on this disk."""
        data = self.read("bundles/" + self.config["digest"], missing=(404,))
        if data is None or hashlib.sha256(data).hexdigest() != self.config["digest"]:
            raise ValueError("the store has no program of this digest")
        path = os.path.join(STATE, "program")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "wb") as file:
            file.write(data)
        return path

    def verify(self):
        """Run the program and post what it said; whether it ended with 0."""
        path = self.program()
        with open(os.path.join(STATE, "output"), "w+b") as output, open(os.path.join(STATE, "errors"), "w+b") as errors:
            try:
                code = subprocess.run([path], stdin=subprocess.DEVNULL, stdout=output, stderr=errors, timeout=self.config["longest_s"])
                code = code.returncode
            except subprocess.TimeoutExpired:
                code = 124
            output.seek(0)
            errors.seek(0)
            said, why = output.read(MOST_OUTPUT).decode(errors="replace"), errors.read(MOST_OUTPUT)[-4000:].decode(errors="replace")
        at = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        evidence = {"schema": "gpuprov-member/1", "fleet": self.config["fleet"], "digest": self.config["digest"], "at": at}
        evidence.update({"instance": self.instance, "boot_id": boot_id(), "exit_code": code, "output": said, "errors": why})
        body = json.dumps(evidence, sort_keys=True).encode()
        mine = hashlib.sha256(body).hexdigest()
        signed = patiently(lambda: self.identity("gpuprov/" + mine), self.config["patience_s"])
        # With its digest in its name nobody can have taken the name before.
        where = "evidence/%s/%s/%s/%s-%s" % (self.config["fleet"], self.instance, self.config["digest"], boot_id(), mine[:16])
        if not self.post_once(where, signed.encode() + b"\n" + body):
            raise ValueError("somebody else wrote this machine's evidence")
        if code:
            say("the program ended with %d: %s" % (code, why[-500:]))
        return code == 0


def boot_id():
    """Which boot this is."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def say(text):
    """A line for the console, which the cloud keeps when the machine is gone."""
    line = "gpuprov-member: %s" % text
    sys.stderr.write(line + "\n")
    try:
        with open("/dev/console", "w") as console:
            console.write(line + "\n")
    except OSError:
        pass


class HealthAnswer(http.server.BaseHTTPRequestHandler):
    """What the group's health check hears: 200 after this boot was verified, 503 otherwise, and nothing else."""

    timeout = 10
    verified = False

    def do_GET(self):
        """Say it."""
        self.send_response_only(200 if HealthAnswer.verified else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        """Nothing is logged."""


def first(config):
    """Verify this boot; whether it may serve, and whether the group is to make this machine anew."""
    me = patiently(lambda: ThisMember(config), config["patience_s"])
    if me.broken_off():
        say("%d members failed with %s: it is not run any more" % (config["breaker"], config["digest"]))
        return False, False
    try:
        verified = me.verify()
    except Exception as error:  # whatever it is, it counts as a failure
        say("%s: %s" % (type(error).__name__, error))
        verified = False
    # The count alone would do: it holds as well where this machine may write slots and not read them.
    return verified, not verified and me.count_failure() and not me.broken_off()


def main():
    """Once for each boot; then answer for as long as the machine runs."""
    os.makedirs(STATE, mode=0o700, exist_ok=True)
    with open(CONFIG) as file:
        config = json.load(file)
    server = http.server.ThreadingHTTPServer(("", config["port"]), HealthAnswer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    done, again = os.path.join(STATE, "done"), False
    if os.path.exists(done):
        with open(done) as file:
            HealthAnswer.verified = file.read().strip() == "True"
    else:
        try:
            HealthAnswer.verified, again = first(config)
        except Exception as error:  # nothing could be said to the store: it stays, does not serve, and the group sees that
            say("%s: %s" % (type(error).__name__, error))
        with open(done, "w") as file:
            file.write("%s\n" % HealthAnswer.verified)
    say("verified" if HealthAnswer.verified else "not verified")
    if again:
        subprocess.run(["systemctl", "poweroff"])
    threading.Event().wait()


if __name__ == "__main__":
    main()

"""What a member of a fleet does at its first boot: fetch its program, run it, post the evidence, and say whether it may serve.

It is sent in the user data and runs as root with the standard library of Python 3.7 or later. It trusts the digest in its user data and
nothing else: the store only has bytes. Its credentials are those of the machine's role, from the metadata service (IMDSv2). Its requests
are signed as docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html says.
"""

import datetime
import hashlib
import hmac
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

CONFIG = "/etc/gpuprov/member.json"
STATE = "/var/lib/gpuprov-member"
MOST_PROGRAM = 64 * 1024 * 1024
MOST_OUTPUT = 4 * 1024 * 1024
COMPLETE_TRIES = 8
POWER_OFF = ["systemctl", "poweroff"]  # EC2 terminates the machine then
STORE_TRIES = 8  # about two minutes: a policy that was just written takes effect a little later


class RefusedByStore(Exception):
    """The store refuses this member for good, and so all that are like it."""


class Refused(Exception):
    """AWS answered with an error; `code` is its own."""

    def __init__(self, status, text):
        found = re.search(r"<Code>([^<]*)</Code>", text)
        self.status, self.code = status, found.group(1) if found else ""
        super().__init__("%s %s" % (status, self.code or text[:200]))


def http(method, url, headers, body=None, most=MOST_PROGRAM):
    """One request; bytes, at most so many."""
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            data = reply.read(most + 1)
    except urllib.error.HTTPError as error:
        raise Refused(error.code, error.read(65536).decode(errors="replace")) from error
    if len(data) > most:
        raise ValueError("the answer is larger than %d bytes" % most)
    return data


def patiently(act, patience_s):
    """Do something again while the network or the store fails; pauses grow and differ, so that members do not ask in step."""
    pause, end = 1.0, time.monotonic() + patience_s
    while True:
        try:
            return act()
        except (OSError, Refused) as error:
            lasting = isinstance(error, Refused) and error.status < 500 and error.status != 429 and "Throttl" not in error.code
            if lasting or time.monotonic() > end:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, 60.0)


class Member:
    """This machine, as AWS knows it."""

    def __init__(self, config):
        self.config, self.region = config, config["region"]
        self.own = config.get("endpoint")
        self.imds = self.own or "http://169.254.169.254"
        self.instance = self.metadata("instance-id")
        answer = self.signed("POST", "sts", "/", body=b"Action=GetCallerIdentity&Version=2011-06-15").decode()
        self.id = re.search(r"<UserId>([^<]*)</UserId>", answer).group(1)

    def metadata(self, path):
        """A value of the metadata service."""
        token = http("PUT", self.imds + "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "300"}, b"").decode()
        return http("GET", self.imds + "/latest/meta-data/" + path, {"X-aws-ec2-metadata-token": token}).decode()

    def signed(self, method, service, path, query=None, body=b"", headers=None, most=MOST_PROGRAM):
        """A signed request to a service of the region; the store's bucket has a region of its own."""
        region = self.config["store_region"] if service == "s3" else self.region
        role = self.metadata("iam/security-credentials/").split()[0]
        given = json.loads(self.metadata("iam/security-credentials/" + role))
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        base = self.own or "https://%s.%s.%s" % (service, region, suffix)
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        sent = {"host": urllib.parse.urlsplit(base).netloc, "x-amz-date": now, "x-amz-security-token": given["Token"]}
        sent.update({"x-amz-content-sha256": digest})
        sent.update(headers or {})
        if body:
            sent["content-type"] = "application/octet-stream" if service == "s3" else "application/x-www-form-urlencoded"
        names = ";".join(sorted(sent))
        where = urllib.parse.quote(path, safe="/-_.~")
        asked = urllib.parse.urlencode(sorted((query or {}).items()), quote_via=urllib.parse.quote, safe="-_.~")
        lines = "".join("%s:%s\n" % (name, sent[name]) for name in sorted(sent))
        canonical = "\n".join([method, where, asked, lines, names, digest])
        scope = "%s/%s/%s/aws4_request" % (now[:8], region, service)
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + given["SecretAccessKey"]).encode()
        for part in (now[:8], region, service, "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        who = "Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (given["AccessKeyId"], scope, names, signature)
        sent["authorization"] = "AWS4-HMAC-SHA256 " + who
        del sent["host"]  # the library's own, and the same
        return http(method, base + where + ("?" + asked if asked else ""), sent, body or None, most)

    def store(self, method, key, body=b"", headers=None, query=None, most=MOST_PROGRAM):
        """A request for an object of the store, or with a query for its list."""
        path = "/%s" % self.config["bucket"] if query else "/%s/%s%s" % (self.config["bucket"], self.config["prefix"], key)
        return self.signed(method, "s3", path, query, body, headers, most)

    def needed(self, act):
        """What the store answers; a refusal is asked again a bounded number of times, and then it is one for good."""
        for tried in range(STORE_TRIES):
            try:
                return patiently(act, self.config["patience_s"])
            except Refused as error:
                if error.status == 412 or error.status >= 500 or error.status == 429:
                    raise
                refused = error
            time.sleep(min(2.0**tried * self.config["pause_s"], 30.0) * random.uniform(0.5, 1.0))
        raise RefusedByStore(str(refused))

    def post_once(self, key, body):
        """Write an object that nobody has written; one that is there stays as it is."""
        try:
            self.needed(lambda: self.store("PUT", key, body, {"if-none-match": "*"}))
        except Refused as error:
            if error.status != 412:
                raise

    def group(self, action, **fields):
        """A call about this member's own group."""
        fields.update({"Action": action, "Version": "2011-01-01", "AutoScalingGroupName": self.config["group"]})
        return self.signed("POST", "autoscaling", "/", body=urllib.parse.urlencode(fields).encode())

    def may_be(self):
        """Whether the group may have members; it may have none after its deadline."""
        fields = {"Action": "DescribeAutoScalingGroups", "Version": "2011-01-01", "AutoScalingGroupNames.member.1": self.config["group"]}
        text = self.signed("POST", "autoscaling", "/", body=urllib.parse.urlencode(fields).encode()).decode()
        return "<MaxSize>0</MaxSize>" not in text

    def wanted(self):
        """The state that the group wants this machine in; empty where it is in none."""
        try:
            return self.metadata("autoscaling/target-lifecycle-state")
        except Refused:
            return ""

    def complete(self, result):
        """Say CONTINUE or ABANDON, a bounded number of times: the hook may come after us, or be over."""
        fields = {"LifecycleHookName": self.config["hook"], "InstanceId": self.instance, "LifecycleActionResult": result}
        for tried in range(COMPLETE_TRIES):
            try:
                patiently(lambda: self.group("CompleteLifecycleAction", **fields), self.config["patience_s"])
                return
            except Refused as error:
                say("%s was not taken (%s)" % (result, error))
                if error.code != "ValidationError" or self.wanted() != "InService":
                    return
            time.sleep(min(2.0**tried * self.config["pause_s"], 30.0) * random.uniform(0.5, 1.0))

    def beat(self, ended):
        """Keep the hook open while this member is at work, or waits for a store that is down."""
        fields = {"LifecycleHookName": self.config["hook"], "InstanceId": self.instance}
        while not ended.wait(self.config["heartbeat_s"] / 3):
            try:
                self.group("RecordLifecycleActionHeartbeat", **fields)
            except (OSError, Refused) as error:
                say("a heartbeat was not taken (%s)" % error)

    def failures(self):
        """How many members failed with this program."""
        prefix = "%sfailures/%s/%s/" % (self.config["prefix"], self.config["fleet"], self.config["digest"])
        query = {"list-type": "2", "prefix": prefix}
        text = self.needed(lambda: self.store("GET", "", query=query)).decode()
        return len(re.findall(r"<Key>", text))

    def superseded(self):
        """Whether another roll took the place of the one to this program. The group's calls do not say whose roll they end."""
        key = "bundles/%s-%s.superseded" % (self.config["launch"], self.config["digest"])
        try:
            return bool(patiently(lambda: self.store("GET", key, most=64), self.config["patience_s"]))
        except Refused:  # nobody said so: with no right to list, what is not there is forbidden
            return False

    def break_off(self, why):
        """End the roll to this program, or let the group launch no more: what fails everywhere costs money and proves nothing."""
        if self.superseded():
            say("the group rolls to another program by now")
            return
        say(why)
        try:
            patiently(lambda: self.group("RollbackInstanceRefresh"), self.config["patience_s"])
            say("the group goes back to the version before the roll")
        except Refused as error:
            if self.goes_back():  # for which it has to launch
                return
            say("the group launches no more (%s)" % error.code)
            body = {"ScalingProcesses.member.1": "Launch"}
            patiently(lambda: self.group("SuspendProcesses", **body), self.config["patience_s"])

    def goes_back(self):
        """Whether a roll of the group goes back now: the code that refuses a second way back is not documented."""
        try:
            return b">RollbackInProgress<" in patiently(lambda: self.group("DescribeInstanceRefreshes"), self.config["patience_s"])
        except Refused as error:
            say("what the group rolls to is not known (%s)" % error)
            return False

    def program(self):
        """The program of the digest, on this disk."""
        data = self.needed(lambda: self.store("GET", "bundles/" + self.config["digest"]))
        if hashlib.sha256(data).hexdigest() != self.config["digest"]:
            raise RefusedByStore("the store has another program under this digest")
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
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        at = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        evidence = {"schema": "gpuprov-member/1", "fleet": self.config["fleet"], "digest": self.config["digest"], "member": self.id}
        evidence.update({"instance": self.instance, "boot_id": boot, "at": at, "exit_code": code, "output": said, "errors": why})
        body = json.dumps(evidence, sort_keys=True).encode()
        self.post_once("evidence/%s/%s/%s.json" % (self.config["fleet"], self.id, self.config["digest"]), body)
        if code:
            say("the program ended with %d: %s" % (code, why[-500:]))
            last = why.strip().rpartition("\n")[2][:500]
            failure = ("%d %s\n" % (code, last)).encode()
            self.post_once("failures/%s/%s/%s" % (self.config["fleet"], self.config["digest"], self.id), failure)
        return code == 0


def say(text):
    """A line for the console, which the cloud keeps when the machine is gone."""
    line = "gpuprov-member: %s" % text
    sys.stderr.write(line + "\n")
    try:
        with open("/dev/console", "w") as console:
            console.write(line + "\n")
    except OSError:
        pass


def watch(config):
    """End this machine once its group may have none: one that is protected from scale-in or in Standby the group leaves running.

    The group is asked from the first deadline on, and seldom. While it may have members it would replace a machine that ends itself.
    """
    while True:
        time.sleep(min(max(config["watch_from"] - time.time(), config["watch_s"]), 3600.0) * random.uniform(0.5, 1.0))
        if time.time() < config["watch_from"]:
            continue
        try:
            if not Member(config).may_be():
                say("the group may have no members any more: powering off")
                subprocess.run(POWER_OFF)
                return
        except (OSError, Refused) as error:
            say("what the group may have is not known (%s)" % error)


def main():
    """Once for each machine; a boot that was cut off begins again."""
    done = os.path.join(STATE, "done")
    if os.path.exists(done):
        return
    os.makedirs(STATE, mode=0o700, exist_ok=True)
    with open(CONFIG) as file:
        config = json.load(file)
    me = patiently(lambda: Member(config), config["patience_s"])
    verified, ended = False, threading.Event()
    threading.Thread(target=me.beat, args=(ended,), daemon=True).start()
    try:
        count = me.failures()
        if count < config["breaker"]:
            verified = me.verify()
            count = 0 if verified else me.failures()
        if count >= config["breaker"]:
            me.break_off("%d members failed with %s" % (count, config["digest"]))
    except Exception as error:  # whatever it is, the group must hear of it
        say("%s: %s" % (type(error).__name__, error))
        if isinstance(error, RefusedByStore):  # no failure can be counted there, and each member after this one costs as much
            try:
                me.break_off("the store refuses the members")
            except (OSError, Refused) as refused:
                say("the group goes on launching: %s" % refused)
    ended.set()
    me.complete("CONTINUE" if verified else "ABANDON")
    say("verified" if verified else "not verified")
    with open(done, "w") as file:
        file.write("%s\n" % verified)


if __name__ == "__main__":
    if sys.argv[1:] == ["watch"]:
        with open(CONFIG) as written:
            watch(json.load(written))
    else:
        main()

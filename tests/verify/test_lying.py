"""Hosts that lie, break off, babble or hang, seen through the real ssh and a real sshd: bounded, and reported as what they are."""

import asyncio
import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provision.errors import GpuprovError, HostUnreachableError, ProbeFailedError
from provision.host.ssh import Target
from provision.profile import load
from provision.verify.facts import Facts
from provision.verify.judge import judge
from provision.verify.observe import observe
from provision.verify.probe import run as probe
from provision.verify.schema import Kernel, Python3

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd here: apt-get install openssh-server")

# What a lying python3 knows: the request that was sent to it, and how an answer is framed.
LIAR = f"""#!{sys.executable}
import base64, json, os, signal, sys, time, zlib
s = sys.stdin.buffer
loader = s.read(int(s.readline()))
sent = json.loads(zlib.decompress(s.read(int(s.readline()))))
nonce = json.loads(s.read(int(s.readline())))["nonce"]
GOOD = {{"gathered_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "elapsed_s": 0.1, "facts": {{
    "kernel": {{"value": {{"release": "6.1", "machine": "x86_64"}}}}}}}}
def packed(answer):
    return base64.b64encode(zlib.compress(answer if isinstance(answer, bytes) else json.dumps(answer).encode()))
def frame(data, length=None, nonce=nonce):
    sys.stdout.write("\\n<<gpuprov %s %d>>%s<<end>>\\n" % (nonce, len(data) if length is None else length, data.decode()))
    sys.stdout.flush()
"""


class Endpoint:
    """An sshd of this user on loopback, whose login and whose programs a test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {folder}/host\nPidFile none\nAuthorizedKeysFile {folder}/user.pub\n"
            f"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPrintMotd no\nForceCommand {folder}/login\nBanner {folder}/banner\n"
        )
        (folder / "banner").write_text("** Property of ISA. <<gpuprov fake 4>>AAAA<<end>> **")
        self.reach(self.port)
        # Not bash, which reads .bashrc when sshd starts it.
        self.login('exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"')
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd(8) wants it when it runs as root
        assert SSHD is not None
        self._sshd = subprocess.Popen([SSHD, "-D", "-E", str(folder / "log"), "-f", str(folder / "sshd_config")])
        self._wait()

    def _wait(self) -> None:
        for _ in range(100):
            with socket.socket() as knock:
                if knock.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        pytest.fail((self.folder / "log").read_text())

    def reach(self, port: int) -> None:
        """Let ssh connect to a port, with the host's key known for it."""
        known = (self.folder / "host.pub").read_text().rsplit(" ", 1)[0]
        (self.folder / "known_hosts").write_text(f"lying {known}\n")
        (self.folder / "ssh_config").write_text(
            f"Host lying\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n HostKeyAlias lying\n IdentitiesOnly yes\n"
            f" IdentityFile {self.folder}/user\n UserKnownHostsFile {self.folder}/known_hosts\n GlobalKnownHostsFile /dev/null\n"
        )
        self.target = Target("lying", "lying", self.folder / "ssh_config")

    def login(self, text: str, shebang: str = "/bin/sh") -> None:
        """What runs when somebody logs in, with the command in $SSH_ORIGINAL_COMMAND."""
        # Not sshd's SetEnv: the .bashrc of whoever runs the tests may have the last word on PATH.
        path = f"PATH={self.bin}:/usr/bin:/bin; export PATH\n" if shebang == "/bin/sh" else ""
        executable(self.folder / "login", f"#!{shebang}\n{path}{text}\n")

    def program(self, name: str, text: str) -> None:
        """A program that comes first on the host's PATH."""
        executable(self.bin / name, text)

    def look(self, timeout_s: float = 20) -> Facts:
        return asyncio.run(observe(self.target, timeout_s=timeout_s))

    def close(self) -> None:
        self._sshd.terminate()
        self._sshd.wait()


def executable(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Endpoint]:
    made = Endpoint(tmp_path)
    yield made
    made.close()


def honest(facts: Facts) -> bool:
    return facts.read(Kernel).release == os.uname().release and facts.read(Python3).version.startswith("3.")


@pytest.mark.parametrize(
    "login",
    [
        'echo "Last login: <<gpuprov $(date +%s) 4>>AAAA<<end>>"; exec sh -c "$SSH_ORIGINAL_COMMAND"',
        'printf "no newline at the end"; exec sh -c "$SSH_ORIGINAL_COMMAND"',
        'sh -c "$SSH_ORIGINAL_COMMAND"; printf "\\n<<gpuprov bye"',
        'set -xv; echo "you asked for: $SSH_ORIGINAL_COMMAND"; sh -c "$SSH_ORIGINAL_COMMAND"; exit 7',
        'head -c 3000000 /dev/urandom; head -c 3000000 /dev/urandom >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"',
        'cd /; umask 777; trap "" PIPE; export LANG=xx_XX PYTHONPATH=/nowhere PYTHONHOME=/nowhere; exec sh -c "$SSH_ORIGINAL_COMMAND"',
    ],
)
def test_whatever_a_login_prints_the_facts_come_through(host: Endpoint, login: str) -> None:
    host.login(login)
    assert honest(host.look())


def test_a_login_shell_that_is_no_posix_shell_still_runs_the_probe(host: Endpoint) -> None:
    """Like fish and tcsh it knows words, quotes and exec, and nothing of `if … then … fi`."""
    host.login(
        "import os, shlex\n_, *words = shlex.split(os.environ['SSH_ORIGINAL_COMMAND'])\nos.execvp(words[0], words)",
        shebang=sys.executable,
    )
    assert honest(host.look())


@pytest.mark.parametrize(
    "text",
    [
        'echo "conda: environment base"; exec "{real}" "$@"',
        'printf "%s" "<<gpuprov "; exec "{real}" "$@"',
        '"{real}" "$@"; printf "goodbye"; exit 3',
    ],
)
def test_a_python_that_talks_does_not_matter(host: Endpoint, text: str) -> None:
    host.program("python3", f"#!/bin/sh\n{text.format(real=sys.executable)}\n")
    assert honest(host.look())


def test_no_python_is_a_finding_even_where_the_host_prints_what_it_was_asked(host: Endpoint) -> None:
    profile = load.load(load.find("t4-train"))
    host.login('PATH=/nowhere; export PATH; echo "$SSH_ORIGINAL_COMMAND"; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"')
    findings = {f.check: f for f in judge(host.look(), profile).findings}
    assert (findings["python3"].outcome, findings["python3"].observed) == ("fail", "no python3 on this host")
    host.login('echo "This account may not run $SSH_ORIGINAL_COMMAND"; exit 1')
    with pytest.raises(ProbeFailedError, match="exit code 1"):
        host.look()


def test_a_python_too_old_for_the_probe_is_a_fact_and_no_failure(host: Endpoint) -> None:
    host.program("python3", f"#!{sys.executable}\nimport sys\nsys.version_info = (3, 6, 8)\nexec(sys.argv[-1])\n")
    facts = host.look()
    assert facts.read(Python3).version == "3.6.8"
    assert set(facts.raw) == {"python3", "clock_ahead"}
    assert judge(facts, load.load(load.find("t4-train"))).exit_code() != 0


BROKEN = {
    "nothing": "",
    "another nonce": "frame(packed(GOOD), nonce='0' * 16)",
    "half a frame": "data = packed(GOOD); sys.stdout.write('\\n<<gpuprov %s %d>>%s' % (nonce, len(data), data[:20].decode()))",
    "a length that is not true": "frame(packed(GOOD), length=7)",
    "a length beyond numbers": "sys.stdout.write('<<gpuprov %s %s>>AAAA<<end>>' % (nonce, '9' * 5000))",
    "no base64": "frame(b'A===A')",
    "no zlib": "frame(base64.b64encode(b'GPU' * 40))",
    "one bit changed": "d = bytearray(zlib.compress(json.dumps(GOOD).encode())); d[25] ^= 4; frame(base64.b64encode(bytes(d)))",
    "zlib cut off": "frame(base64.b64encode(zlib.compress(json.dumps(GOOD).encode())[:-6]))",
    "no JSON": "frame(packed(b'{'))",
    "no UTF-8": "frame(packed(b'\"\\xff\\xfe'))",
    "a list": "frame(packed([GOOD]))",
    "facts that are a list": "frame(packed(dict(GOOD, facts=[])))",
    "no facts": "frame(packed({'schema': 'gpuprov-facts/1'}))",
    "no end of brackets": "frame(packed(b'[' * 1000000))",
    "a number without end": "frame(packed(b'{\"facts\": {}, \"elapsed_s\": ' + b'9' * 500 + b'}'))",
    "forty MB that compress well": "frame(packed(b'{\"facts\": {\"x\": \"' + b'x' * 40000000 + b'\"}}'))",
    "half a million facts": "frame(packed(dict(GOOD, facts={str(n): 1 for n in range(100000)})))",
}


@pytest.mark.parametrize("lie", BROKEN.values(), ids=BROKEN.keys())
def test_an_answer_that_is_broken_is_said_to_be(host: Endpoint, lie: str) -> None:
    host.program("python3", f"{LIAR}{lie}\n")
    started = time.monotonic()
    with pytest.raises(ProbeFailedError) as caught:
        host.look()
    assert time.monotonic() - started < 10
    assert caught.value.exit_code == 3
    assert "gpuprov probe --script" in caught.value.hint
    assert "no facts came back" in caught.value.message


def test_a_probe_that_is_killed_half_way_is_no_host_that_cannot_be_reached(host: Endpoint) -> None:
    host.program(
        "python3", f"{LIAR}sys.stdout.write('<<gpuprov %s 99>>' % nonce); sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with pytest.raises(HostUnreachableError, match="ended the session and gave no reason") as caught:
        host.look()
    assert "out-of-memory" in caught.value.hint


def test_a_broken_frame_beside_a_whole_one_does_not_matter(host: Endpoint) -> None:
    host.program("python3", f"{LIAR}frame(b'AAAA'); frame(packed(b'[]')); frame(packed(GOOD)); frame(packed(dict(GOOD, facts={{}})))\n")
    assert host.look().read(Kernel).release == "6.1"


ABSURD = {
    "a megabyte of text": '"x" * 1000000',
    "a hundred thousand numbers": "[1] * 200000",
    "deep": "json.loads('[' * 900 + ']' * 900)",
    "a number beyond all": "10 ** 400",
    "not a number": "float('nan')",
}


@pytest.mark.parametrize("value", ABSURD.values(), ids=ABSURD.keys())
def test_one_absurd_fact_is_unknown_and_the_others_are_kept(host: Endpoint, value: str) -> None:
    host.program("python3", f"{LIAR}GOOD['facts'].update(python3={{'value': {value}}}, gpu={{'unknown': {value}}})\nframe(packed(GOOD))\n")
    facts = host.look()
    assert facts.read(Kernel).release == "6.1"
    report = judge(facts, load.load(load.find("t4-train")))
    findings = {f.check: f for f in report.findings}
    assert findings["python3"].outcome == "unknown"
    assert findings["gpu"].outcome == "unknown"
    assert max(len(f.observed) for f in report.findings) < 2000


@pytest.mark.parametrize(("years", "words"), [(30, "ahead of this machine's"), (-20, "behind this machine's")])
def test_a_clock_that_is_years_off_is_said_and_costs_no_fact(host: Endpoint, years: int, words: str) -> None:
    """`date` and python3 alike: what gathers the facts believes its own clock."""
    off = f"import sys, time\nnow, gmtime = time.time, time.gmtime\ntime.time = lambda: now() + {years} * 31557600\n"
    host.program(
        "python3", f"#!{sys.executable}\n{off}time.gmtime = lambda at=None: gmtime(time.time() if at is None else at)\nexec(sys.argv[-1])\n"
    )
    facts = host.look()
    assert honest(facts)
    assert facts.clock_ahead_s == pytest.approx(years * 31557600, abs=30)
    (note,) = [n for n in judge(facts, load.load(load.find("t4-train"))).notes if "clock" in n]
    assert words in note


def test_a_clock_that_is_right_is_not_mentioned_and_one_that_names_no_time_is_unknown(host: Endpoint) -> None:
    assert not [n for n in judge(host.look(), load.load(load.find("t4-train"))).notes if "clock" in n]
    host.program("python3", f"{LIAR}frame(packed(dict(GOOD, gathered_at='yesterday ' * 99)))\n")
    facts = host.look()
    assert facts.clock_ahead_s is None
    assert len(facts.gathered_at) < 50


OBSERVE = """
import asyncio, resource, sys, time
from pathlib import Path
from provision.errors import GpuprovError
from provision.host.ssh import Target
from provision.verify.observe import observe
began = time.monotonic()
try:
    asyncio.run(observe(Target("lying", "lying", Path(sys.argv[1])), timeout_s=30))
    said = "facts"
except GpuprovError as error:
    said = f"{error.code}: {error.message}"
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, round(time.monotonic() - began, 2), said)
"""


def cost(host: Endpoint) -> tuple[int, float, str]:
    """MiB at most, seconds and outcome of one observation in a process of its own."""
    done = subprocess.run([sys.executable, "-c", OBSERVE, str(host.target.config)], capture_output=True, text=True, check=True)
    mib, seconds, said = done.stdout.split(" ", 2)
    return int(mib), float(seconds), said.strip()


@pytest.mark.parametrize(
    "login",
    [
        'head -c 100000000 /dev/zero; exec sh -c "$SSH_ORIGINAL_COMMAND"',
        'head -c 100000000 /dev/zero >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"',
        "exec yes '<<gpuprov 0123456789abcdef 4>>AAAA<<end>>'",
    ],
)
def test_a_hundred_megabytes_end_early_and_in_little_memory(host: Endpoint, login: str) -> None:
    usual, _, said = cost(host)
    assert said == "facts"
    host.login(login)
    mib, seconds, said = cost(host)
    assert said.startswith("probe-failed")
    assert "more output than can be facts" in said
    assert mib < usual + 40
    assert seconds < 15


def test_an_answer_made_to_fill_memory_does_not(host: Endpoint) -> None:
    usual, _, _ = cost(host)
    host.program("python3", f"{LIAR}frame(packed(b'{{\"facts\": {{\"x\": [' + b'{{}},' * 13000000 + b'{{}}]}}}}'))\n")
    mib, seconds, said = cost(host)
    assert said.startswith("probe-failed")
    assert mib < usual + 60
    assert seconds < 15


class Relay:
    """A way to the host that stops, or spoils one byte, after so many bytes of the host's answer."""

    def __init__(self, port: int, spoil: Callable[[socket.socket, bytes, int], bool]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._to, self._spoil = port, spoil
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._carry, args=(near, far, lambda to, data, _: to.sendall(data) is None), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, self._spoil), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, to: socket.socket, pass_on: Callable[[socket.socket, bytes, int], bool]) -> None:
        seen = 0
        try:
            while (data := source.recv(4096)) and pass_on(to, data, seen):
                seen += len(data)
        except OSError:
            pass
        for side in (source, to):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)  # close() alone says nothing while the other thread reads
            side.close()

    def close(self) -> None:
        self._server.close()


@pytest.mark.parametrize("after", [0, 20, 1500, 2500, 3500, 5000])
def test_a_connection_that_dies_half_way_is_unreachable(host: Endpoint, after: int) -> None:
    def cut(to: socket.socket, data: bytes, seen: int) -> bool:
        to.sendall(data[: max(0, after - seen)])
        return seen + len(data) < after

    relay = Relay(host.port, cut)
    host.reach(relay.port)
    host.program("python3", f"{LIAR}GOOD['facts']['x'] = os.urandom(9000).hex(); frame(packed(GOOD))\n")
    try:
        with pytest.raises(HostUnreachableError) as caught:
            host.look()
    finally:
        relay.close()
    assert caught.value.exit_code == 3
    assert caught.value.hint


@pytest.mark.parametrize("at", [10, 2500, 4500])
def test_a_byte_changed_on_the_way_is_noticed(host: Endpoint, at: int) -> None:
    def change(to: socket.socket, data: bytes, seen: int) -> bool:
        changed = bytearray(data)
        if seen <= at < seen + len(data):
            changed[at - seen] ^= 1
        to.sendall(changed)
        return True

    relay = Relay(host.port, change)
    host.reach(relay.port)
    host.program("python3", f"{LIAR}GOOD['facts']['x'] = os.urandom(9000).hex(); frame(packed(GOOD))\n")
    try:
        with pytest.raises(GpuprovError) as caught:
            host.look(timeout_s=10)
    finally:
        relay.close()
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("how", ["exec sleep 60", "kill -9 $PPID; sleep 60", 'setsid sleep 8 & echo "left one behind"', "kill -9 $$"])
def test_a_login_that_hangs_or_dies_is_bounded(host: Endpoint, how: str) -> None:
    host.login(how)
    started = time.monotonic()
    with pytest.raises(GpuprovError) as caught:
        host.look(timeout_s=3)
    assert time.monotonic() - started < 6
    assert caught.value.exit_code == 3


def test_an_ssh_that_is_killed_and_one_that_leaves_a_child_with_its_pipes_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for text in ("kill -9 $$", "setsid sleep 8 & exit 0", "exit 255"):
        executable(tmp_path / "ssh", f"#!/bin/sh\n{text}\n")
        started = time.monotonic()
        with pytest.raises(GpuprovError) as caught:
            asyncio.run(observe(Target("gone", "gone"), timeout_s=3))
        assert time.monotonic() - started < 6
        assert caught.value.exit_code == 3


def test_a_tool_that_hangs_or_floods_costs_its_own_fact(host: Endpoint) -> None:
    sleeping = f"sleep 61.{host.port}"
    host.program("gcc", f"#!/bin/sh\nsetsid {sleeping} & exec {sleeping}\n")
    host.program("make", "#!/bin/sh\nexec yes\n")
    host.program("git", "#!/bin/sh\nsleep 7 & echo git version 2.39.2\n")
    started = time.monotonic()
    facts = host.look(timeout_s=15)
    assert time.monotonic() - started < 15
    assert "12 s" in facts.raw["tool_gcc"]["unknown"]
    assert "printed more than" in facts.raw["tool_make"]["unknown"]
    assert facts.tool("git") is not None  # what a child left behind holds open is not waited for
    assert honest(facts)
    left = subprocess.run(["pgrep", "-fx", sleeping], capture_output=True, text=True, check=False).stdout.split()
    assert len(left) <= 1  # the one that left its session on purpose


def test_a_fact_that_hangs_where_nothing_can_end_it_is_late_by_its_own_deadline_alone() -> None:
    def stuck() -> None:
        time.sleep(20)

    vars(stuck)["deadline_s"] = 0.3
    started = time.monotonic()
    told = probe.gather({"stuck": stuck, "fine": lambda: 1}, 30)  # type: ignore[no-untyped-call]
    assert time.monotonic() - started < 5
    assert told["fine"] == {"value": 1}
    assert "not observed within" in told["stuck"]["unknown"]

"""Hosts that lie or babble, seen through the real ssh and a real sshd: bounded, and reported as what they are."""

import subprocess
import sys

import pytest

from provision.errors import HostUnreachableError, ProbeFailedError
from provision.profile import load
from provision.verify.facts.system import KernelFacts, Python3Facts
from provision.verify.judge import judge

from .sshd import LIAR, Endpoint, honest, needed

pytestmark = needed


@pytest.mark.matrix(of=3)
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


@pytest.mark.matrix(of=3)
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
    assert facts.read(Python3Facts).version == "3.6.8"
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


@pytest.mark.matrix(of=3)
@pytest.mark.parametrize("lie", BROKEN.values(), ids=BROKEN.keys())
def test_an_answer_that_is_broken_is_said_to_be(host: Endpoint, lie: str) -> None:
    host.program("python3", f"{LIAR}{lie}\n")
    with pytest.raises(ProbeFailedError) as caught:
        host.look()
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
    assert host.look().read(KernelFacts).release == "6.1"


ABSURD = {
    "a megabyte of text": '"x" * 1000000',
    "a hundred thousand numbers": "[1] * 200000",
    "deep": "json.loads('[' * 900 + ']' * 900)",
    "a number beyond all": "10 ** 400",
    "not a number": "float('nan')",
}


@pytest.mark.matrix(of=3)
@pytest.mark.parametrize("value", ABSURD.values(), ids=ABSURD.keys())
def test_one_absurd_fact_is_unknown_and_the_others_are_kept(host: Endpoint, value: str) -> None:
    host.program("python3", f"{LIAR}GOOD['facts'].update(python3={{'value': {value}}}, gpu={{'unknown': {value}}})\nframe(packed(GOOD))\n")
    facts = host.look()
    assert facts.read(KernelFacts).release == "6.1"
    report = judge(facts, load.load(load.find("t4-train")))
    findings = {f.check: f for f in report.findings}
    assert findings["python3"].outcome == "unknown"
    assert findings["gpu"].outcome == "unknown"
    assert max(len(f.observed) for f in report.findings) < 2000


@pytest.mark.parametrize("whole", [True, False])
def test_a_host_has_no_say_in_what_the_client_adds(host: Endpoint, *, whole: bool) -> None:
    answer = "frame(packed(GOOD))" if whole else "frame(packed(GOOD), nonce=nonce + ' part 0')"
    host.program("python3", f"{LIAR}GOOD['facts'].update(bench={{'value': 1}}, fleet={{'value': 1}})\n{answer}\n")
    assert set(host.look().raw) == {"kernel", "clock_ahead"}


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
import asyncio, resource, sys
from pathlib import Path
from provision.errors import GpuprovError
from provision.host.ssh import Target
from provision.verify.observe import observe
try:
    asyncio.run(observe(Target("lying", "lying", Path(sys.argv[1])), timeout_s=240))
    said = "facts"
except GpuprovError as error:
    said = f"{error.code}: {error.message}"
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, said)
"""


def cost(host: Endpoint) -> tuple[int, str]:
    """MiB at most and outcome of one observation in a process of its own."""
    process = subprocess.run([sys.executable, "-c", OBSERVE, str(host.target.config)], capture_output=True, text=True, check=True)
    mib, answer = process.stdout.split(" ", 1)
    return int(mib), answer.strip()


@pytest.mark.matrix(of=3)
@pytest.mark.parametrize(
    "login",
    [
        'head -c 100000000 /dev/zero; exec sh -c "$SSH_ORIGINAL_COMMAND"',
        'head -c 100000000 /dev/zero >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"',
        "exec yes '<<gpuprov 0123456789abcdef 4>>AAAA<<end>>'",
    ],
)
def test_a_hundred_megabytes_end_early_and_in_little_memory(host: Endpoint, login: str) -> None:
    usual, answer = cost(host)
    assert answer == "facts"
    host.login(login)
    mib, answer = cost(host)
    assert answer.startswith("probe-failed")
    assert "more output than can be facts" in answer
    assert mib < usual + 40


def test_an_answer_made_to_fill_memory_does_not(host: Endpoint) -> None:
    usual, _ = cost(host)
    host.program("python3", f"{LIAR}frame(packed(b'{{\"facts\": {{\"x\": [' + b'{{}},' * 13000000 + b'{{}}]}}}}'))\n")
    mib, answer = cost(host)
    assert answer.startswith("probe-failed")
    assert mib < usual + 60

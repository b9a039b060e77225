"""What the checks of system say to which facts: a case for each outcome that each can have."""

from provision.verify.facts import Facts

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, table, texts

EL = {"rocky": "rocky", "alma": "almalinux", "centos-stream": "centos", "rhel": "rhel"}
CASES: list[Case] = [
    ("os", {}, {}, "pass", "Ubuntu 24.04.3"),
    ("os", {"os__version_id": "22.04"}, {}, "fail", ""),
    ("os", {"os": {"id": "debian", "version_id": "12", "pretty": "Debian 12", "stand_in": True}}, {}, "warn", "stands in"),
    ("os", {"os__stand_in": True}, {}, "warn", "stands in"),
    ("os", {"os": None}, {}, "unknown", "no fact"),
    ("machine", {}, {}, "pass", "x86_64"),
    ("machine", {"kernel__machine": "aarch64"}, {}, "fail", "aarch64"),
    ("python3", {}, {}, "pass", "3.12.3"),
    ("python3", {"python3__version": "3.6.8"}, {}, "fail", "3.6.8"),
    ("python3", {"python3": {"value": None}["value"]}, {}, "unknown", ""),
    ("python3", {"python3__version": "2.7"}, {}, "unknown", "malformed"),
    ("gcc", {}, {}, "pass", "13.3.0"),
    ("gcc", {"tool_gcc__found": None}, {}, "fail", "not installed"),
    ("gcc", {}, {"stack__tools": ["tmux"]}, "not-applicable", ""),
    ("gcc", {"tool_gcc": {"unknown": "timed out"}}, {}, "unknown", "timed out"),
    ("build-tools", {}, {}, "pass", "make 4.3, cmake 3.28.3, git 2.43.0"),
    ("build-tools", {"tool_cmake__found": None}, {}, "fail", "cmake"),
    ("build-tools", {}, {"stack__tools": ["gcc"]}, "not-applicable", ""),
    ("tmux", {"tool_tmux__found": None}, {}, "fail", ""),
    ("tmux", {}, {}, "pass", "3.4"),
    ("ffmpeg", {"tool_ffmpeg__found": None}, {}, "fail", ""),
    ("ffmpeg", {}, {}, "pass", "6.1.1"),
    ("ffmpeg", {}, {"stack__ffmpeg": False}, "not-applicable", ""),
    ("users", {}, {}, "not-applicable", ""),
    ("users", {}, {"users": [{"name": "ann"}]}, "fail", "ann"),
    ("users", {"users": ["ann"]}, {"users": [{"name": "ann"}]}, "pass", ""),
    ("os", {"os__id": "debian"}, {}, "fail", "Ubuntu 24.04.3"),
    ("os", {"os__version_id": "24.04.3"}, {}, "pass", "Ubuntu"),
    ("os", {"os__version_id": "24.041"}, {}, "fail", "Ubuntu"),
    ("os", {"os__id": "amzn", "os__version_id": "2023"}, {"os": {"name": "amazon-linux", "version": "2023"}}, "pass", ""),
    *[("os", {"os__id": name, "os__version_id": "9.4"}, {"os": {"name": ours, "version": "9"}}, "pass", "") for ours, name in EL.items()],
    ("python3", {"python3__version": "3.8"}, {}, "pass", "=3.8"),
    ("python3", {"python3__version": "3.8.0"}, {}, "pass", "=3.8.0"),
    ("python3", {"python3__version": "3.7.17"}, {}, "fail", "=3.7.17"),
    ("python3", {"python3__version": "3.13.0rc1+"}, {}, "pass", "=3.13.0rc1+"),
    ("users", {"users": ["ann"]}, {"users": [{"name": "ann"}, {"name": "bo"}]}, "fail", "=no account: bo"),
]
TEXTS: list[Text] = [
    ("os", {"os__version_id": "22.04"}, {}, "ubuntu 24.04", "launch from the profile's image"),
    ("machine", {"kernel__machine": "aarch64"}, {}, "x86_64", "x86 processor"),
    ("python3", {"python3__version": "3.6.8"}, {}, "3.8 or later", "EL 9"),
    ("gcc", {"tool_gcc__found": None}, {}, "gcc on PATH", "--role base"),
    ("ffmpeg", {"tool_ffmpeg__found": None}, {}, "ffmpeg on PATH", "--role ffmpeg"),
    ("build-tools", {"tool_cmake__found": None}, {}, "make, cmake, git on PATH", "--role base"),
    ("users", {}, {"users": [{"name": "ann"}]}, "ann", "--role base"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)


def test_a_host_without_python3_fails_and_is_not_unknown() -> None:
    finding = good.finding("python3", Facts("", 0.0, {**good.facts().raw, "python3": {"value": None}}))
    assert (finding.outcome, finding.observed) == ("fail", "no python3 on this host")
    assert "install it" in finding.hint

"""What the checks of system say to which facts: a case for each outcome that each can have."""

from .table import Case, table

CASES: list[Case] = [
    ("os", {}, {}, "pass", "Ubuntu 24.04.3"),
    ("os", {"os__version_id": "22.04"}, {}, "fail", ""),
    ("os", {"os": {"id": "debian", "version_id": "12", "pretty": "Debian 12", "stand_in": True}}, {}, "warn", "stands in"),
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
]

test_table = table(CASES)

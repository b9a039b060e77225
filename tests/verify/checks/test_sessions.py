"""What the checks of sessions say to which facts: a case for each outcome that each can have."""

from .table import Case, table

CASES: list[Case] = [
    ("cuda-environment", {}, {}, "pass", ""),
    ("cuda-environment", {"sessions__login": "/usr/bin"}, {}, "fail", "login shells"),
    ("cuda-environment", {"sessions__service": "/usr/local/cuda/bin2"}, {}, "fail", "services"),
    ("cuda-environment", {"sessions__loader": []}, {}, "fail", "the loader"),
    ("cuda-environment", {"sessions__ssh": None}, {}, "unknown", "SSH commands (the probe did not come over SSH)"),
    ("cuda-environment", {"sessions__ssh": None}, {}, "unknown", "in login shells, services, sudo, the loader it is there"),
    (
        "cuda-environment",
        {"sessions__login": "/usr/bin", "sessions__ssh": None, "sessions__service": None},
        {},
        "fail",
        "missing in login shells; could not be seen: SSH commands (the probe did not come over SSH), services (neither systemd",
    ),
    ("cuda-environment", {"sessions__sudo__path": "/usr/sbin:/usr/bin"}, {}, "fail", "=missing in sudo"),
    (
        "cuda-environment",
        {"sessions__sudo__path": None},
        {},
        "warn",
        "=in all others; sudo asks this user for a password, so what it finds was not seen",
    ),
    ("cuda-environment", {"sessions__sudo": None}, {}, "unknown", "sudo (the probe did not look)"),
    ("cuda-environment", {"sessions__sudo": {"exists": False, "path": None}}, {}, "pass", "in all of them"),
]

test_table = table(CASES)

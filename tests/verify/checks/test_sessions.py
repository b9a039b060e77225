"""What the checks of sessions say to which facts: a case for each outcome that each can have."""

from .table import Case, Text, table, texts

CASES: list[Case] = [
    ("cuda-environment", {}, {}, "pass", ""),
    ("cuda-environment", {"sessions__login": "/usr/bin"}, {}, "fail", "login shells"),
    ("cuda-environment", {"sessions__service": "/usr/local/cuda/bin2"}, {}, "fail", "services"),
    ("cuda-environment", {"sessions__loader": []}, {}, "fail", "the loader"),
    ("cuda-environment", {"sessions__loader": ["/usr/local/cuda/extras/CUPTI/lib64/"]}, {}, "pass", "in all of them"),
    ("cuda-environment", {"sessions__loader": ["/usr/local/cuda/extras/CUPTI/lib64/old"]}, {}, "fail", "the loader"),
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
EVERYWHERE = "/usr/local/cuda/bin on PATH in login shells, SSH commands, services and sudo; CUPTI's folder known to the loader"
TEXTS: list[Text] = [
    ("cuda-environment", {"sessions__login": "/usr/bin"}, {}, EVERYWHERE, "--role cupti"),
    ("cuda-environment", {"sessions__ssh": None}, {}, EVERYWHERE, "over SSH"),
    ("cuda-environment", {"sessions__sudo__path": None}, {}, EVERYWHERE, "asks for no password"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)

"""What the checks of sessions say to which facts: a case for each outcome that each can have."""

from typing import Any

from .table import Case, Text, table, texts


def tools(*found: tuple[str, str | None], name: str = "nvcc") -> dict[str, Any]:
    """A login shell's PATH with several programs of one name, in its order."""
    return {"login": {name: [{"path": path, "own": path.startswith("/usr/local/cuda/"), "version": seen} for path, seen in found]}}


LINKED = ("/usr/local/cuda/bin/nvcc", "12.8")
UBUNTUS = ("/usr/bin/nvcc", "11.5")
CASES: list[Case] = [
    ("cuda-environment", {}, {}, "pass", ""),
    ("cuda-environment", {"sessions__login": "/usr/bin"}, {}, "fail", "login shells"),
    ("cuda-environment", {"sessions__service": "/usr/local/cuda/bin2"}, {}, "fail", "services"),
    ("cuda-environment", {"sessions__loader": []}, {}, "fail", "the loader"),
    ("cuda-environment", {"sessions__loader": ["/usr/local/cuda/extras/CUPTI/lib64/"]}, {}, "pass", "found in login shells, "),
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
    ("cuda-environment", {"sessions__sudo": {"exists": False, "path": None}}, {}, "pass", "found in login shells, "),
    (
        "cuda-environment",
        {"sessions__tools": tools(UBUNTUS, LINKED)},
        {},
        "fail",
        "=login shells start /usr/bin/nvcc (11.5) as nvcc, before /usr/local/cuda/bin/nvcc (12.8)",
    ),
    ("cuda-environment", {"sessions__tools": tools(LINKED, UBUNTUS)}, {}, "pass", "found in login shells, "),
    ("cuda-environment", {"sessions__tools": tools(("/opt/nvcc", "12.8"), LINKED)}, {}, "pass", "found in login shells, "),
    ("cuda-environment", {"sessions__tools": tools(("/opt/nvcc", "13.0"), LINKED)}, {}, "fail", "(13.0) as nvcc, before"),
    ("cuda-environment", {"sessions__tools": tools(("/opt/nvcc", None), LINKED)}, {}, "fail", "(no version) as nvcc"),
    ("cuda-environment", {"sessions__tools": tools(("/a/nvcc", "11.5"), ("/b/nvcc", "12.8"))}, {}, "pass", "found in login shells, "),
    (
        "cuda-environment",
        {"sessions__tools": tools(("/usr/bin/nsys", "2022.4.2.1"), ("/usr/local/bin/nsys", "2025.3.1.90"), name="nsys")},
        {},
        "fail",
        "/usr/bin/nsys (2022.4.2.1) as nsys, before /usr/local/bin/nsys (2025.3.1.90)",
    ),
    (
        "cuda-environment",
        {"sessions__tools": tools(("/opt/ncu", "2025.3.1"), ("/usr/local/cuda/bin/ncu", "2024.3.2"), name="ncu")},
        {},
        "pass",
        "found in login shells, ",
    ),
    (
        "cuda-environment",
        {"sessions__tools": {"service": tools(UBUNTUS, LINKED)["login"]}},
        {},
        "fail",
        "services start /usr/bin/nvcc",
    ),
]
EVERYWHERE = "/usr/local/cuda/bin on PATH in login shells, SSH commands, services and sudo; CUPTI's folder known to the loader"
TEXTS: list[Text] = [
    ("cuda-environment", {"sessions__tools": tools(UBUNTUS, LINKED)}, {}, EVERYWHERE, "first on that PATH"),
    ("cuda-environment", {"sessions__login": "/usr/bin"}, {}, EVERYWHERE, "--role cupti"),
    ("cuda-environment", {"sessions__ssh": None}, {}, EVERYWHERE, "over SSH"),
    ("cuda-environment", {"sessions__sudo__path": None}, {}, EVERYWHERE, "asks for no password"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)

"""What the checks of counters say to which facts: a case for each outcome that each can have."""

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, table, texts

GROUP = {"gpu__counters": "group"}
MEMBER = {"members": ["ada"], "capabilities": "0000004000000000", "taken": [], "outcome": "open", "said": ""}
ROOT = {"gpu__counters": "admin-only"}
CLOSED = {"counters__live": "1", "counters__on_disk": "1", "counters__as_user__outcome": "refused"}
QUICK = {"verify__tier": "quick"}
OPEN = "performance counters open to ordinary users: on disk, in the driver, and when one of them tries"
MEMBERS_ONLY = "performance counters closed to ordinary users, and open to the group gpuprov-counters through with-counters"
CASES: list[Case] = [
    ("counters-on-disk", {}, {}, "pass", "set to 0"),
    ("counters-on-disk", {"gpu": good.NO_GPU, "counters__on_disk": None}, {}, "fail", "not set, so it is 1"),
    ("counters-on-disk", {"counters__on_disk": None}, {"gpu__counters": "admin-only"}, "pass", "not set"),
    ("counters-on-disk", {}, {"gpu__counters": "admin-only"}, "fail", "set to 0"),
    ("counters-on-disk", {"counters__by_command_line": True}, ROOT, "fail", "=set to 0 by the kernel's command line"),
    ("counters-on-disk", {"counters": {"unknown": "x"}}, {}, "unknown", "x"),
    ("counters-on-disk", {}, GROUP, "fail", "no with-counters"),
    ("counters-on-disk", {"gpu": good.NO_GPU, "counters__on_disk": "1", "counters__as_group": MEMBER}, GROUP, "pass", "0000004000000000"),
    ("counters-on-disk", {"counters__on_disk": "0", "counters__as_group": MEMBER}, GROUP, "fail", "option 0"),
    ("counters-on-disk", {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "members": []}}, GROUP, "fail", "members: 0"),
    ("counters-on-disk", {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "capabilities": None}}, GROUP, "unknown", "not seen"),
    (
        "counters-on-disk",
        {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "capabilities": "000001ffffffffff"}},
        GROUP,
        "fail",
        "000001ffffffffff",
    ),
    (
        "counters-on-disk",
        {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "taken": ["--version", "MEMBERS_OWN"]}},
        GROUP,
        "fail",
        "takes --version, MEMBERS_OWN of a member while it is root",
    ),
    ("counters-on-disk", {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "taken": None}}, GROUP, "unknown", "not tried"),
    ("counters", {}, {}, "pass", "open"),
    ("counters", {"counters__live": "1"}, {}, "fail", "live 1"),
    ("counters", {"counters__live": "1", "counters__on_disk": None}, {}, "fail", "not set"),
    ("counters", {"counters__on_disk": None}, {}, "warn", "not set"),
    ("counters", {"counters__on_disk": "1"}, {}, "warn", "on disk 1"),
    ("counters", {"counters__as_user__outcome": "refused"}, {}, "fail", "refused"),
    ("counters", {"counters__as_user__outcome": "no-ncu"}, {}, "unknown", "no-ncu"),
    ("counters", {"counters__as_user__outcome": "root-only"}, {}, "unknown", "root-only"),
    ("counters", {"counters__as_user__outcome": "failed"}, {}, "unknown", "failed"),
    ("counters", {"counters__live": None}, {}, "unknown", "unreadable"),
    # For root alone: what the driver does now counts, and what somebody gets.
    ("counters", {}, ROOT, "fail", "=live 0, ncu as ubuntu: open"),
    ("counters", {"counters__as_user__outcome": "refused"}, ROOT, "fail", "=live 0, ncu as ubuntu: refused"),
    ("counters", CLOSED, ROOT, "pass", "=live 1, ncu as ubuntu: refused"),
    ("counters", {**CLOSED, "counters__as_user__outcome": "no-ncu"}, ROOT, "pass", "live 1, ncu as ubuntu: no-ncu"),
    ("counters", {**CLOSED, "counters__as_user__outcome": "open"}, ROOT, "fail", "=live 1, ncu as ubuntu: open"),
    ("counters", {**CLOSED, "counters__as_user": {"outcome": "open", "user": "root", "said": ""}}, ROOT, "pass", "ncu as root: open"),
    ("counters", {**CLOSED, "counters__live": None}, ROOT, "unknown", "=live unreadable, ncu as ubuntu: refused"),
    ("counters", {"gpu": good.NO_GPU}, ROOT, "unknown", "no NVIDIA GPU"),
    ("counters", {"counters__live": "1", "counters__as_user__outcome": "not-tried"}, {**ROOT, **QUICK}, "pass", "live 1"),
    ("counters", {**CLOSED, "counters__as_group": MEMBER}, GROUP, "pass", "as a member: open"),
    ("counters", {"counters__as_group": MEMBER}, GROUP, "fail", "live 0"),
    ("counters", CLOSED, GROUP, "fail", "no with-counters"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "outcome": "refused"}}, GROUP, "fail", "as a member: refused"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "outcome": "not-tried"}}, GROUP, "unknown", "not-tried"),
    ("counters", {**CLOSED, "counters__live": None, "counters__as_group": MEMBER}, GROUP, "unknown", "unreadable"),
    ("counters", {"gpu": good.NO_GPU}, GROUP, "unknown", "no NVIDIA GPU"),
    # As whom: what root gets says nothing of others.
    ("counters", {"counters__as_user": {"outcome": "open", "user": "root", "said": ""}}, {}, "unknown", "ncu as root: open"),
    ("counters", {"counters__as_user": {"outcome": "open", "user": None, "said": ""}}, {}, "unknown", "ncu as nobody: open"),
    ("counters", {"counters__as_user": {"outcome": "open", "user": "", "said": ""}}, {}, "unknown", "ncu as nobody: open"),
    (
        "counters",
        {**CLOSED, "counters__as_group": MEMBER, "counters__as_user": {"outcome": "open", "user": "root", "said": ""}},
        GROUP,
        "unknown",
        "ncu as root: open",
    ),
    ("counters", {"counters__as_user": {"outcome": "open", "user": "nobody", "said": ""}}, {}, "pass", "ncu as nobody: open"),
    ("counters", {"counters__as_user__said": "==PROF== x"}, {}, "pass", "=on disk 0, live 0, ncu as ubuntu: open"),
    (
        "counters",
        {"counters__as_user": {"outcome": "failed", "user": "ada", "said": "==ERROR== x"}},
        {},
        "unknown",
        "=on disk 0, live 0, ncu as ada: failed (==ERROR== x)",
    ),
    ("counters", {"counters__as_user__outcome": "refused"}, {}, "fail", "=on disk 0, live 0, ncu as ubuntu: refused"),
    ("counters", {}, QUICK, "not-applicable", "live 0; not tried as an ordinary user"),
    ("counters", {"counters__live": "1"}, QUICK, "fail", "=live 1"),
    ("counters", {"counters__live": None}, QUICK, "unknown", "=unreadable"),
    ("counters", {"counters__live": "1"}, {**GROUP, **QUICK}, "not-applicable", "live 1; not tried"),
    ("counters", {}, {**GROUP, **QUICK}, "fail", "=live 0"),
    # The driver is closed, and an ordinary user gets them; or the other way round.
    ("counters", {**CLOSED, "counters__as_group": MEMBER, "counters__as_user__outcome": "open"}, GROUP, "fail", "ubuntu: open"),
    ("counters", {**CLOSED, "counters__as_group": MEMBER, "counters__live": "0"}, GROUP, "fail", "live 0"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "members": []}}, GROUP, "fail", "as a member: open"),
    ("counters", {**CLOSED, "counters__as_group": MEMBER, "counters__as_user__outcome": "failed"}, GROUP, "unknown", "ubuntu: failed"),
    ("counters", {**CLOSED, "counters__as_group": MEMBER, "counters__as_user__user": None}, GROUP, "pass", "ncu as nobody: refused"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "capabilities": None}}, GROUP, "unknown", "with capabilities not seen"),
    (
        "counters",
        {**CLOSED, "counters__as_group": {**MEMBER, "capabilities": "000001ffffffffff"}},
        GROUP,
        "unknown",
        "as a member: open, with capabilities 000001ffffffffff",
    ),
    ("counters-on-disk", {"counters__on_disk": None, "counters__as_group": MEMBER}, GROUP, "pass", "option not set, members: 1"),
]
TEXTS: list[Text] = [
    ("counters", {}, QUICK, "nothing", ""),
    ("counters", {"counters__live": "1"}, QUICK, "RmProfilingAdminOnly: 0", "then reboot or reload the driver"),
    ("counters", {"counters__live": None}, QUICK, "RmProfilingAdminOnly: 0", "look there on the host"),
    ("counters", {"counters__live": "1"}, {}, OPEN, "reboot or reload the module"),
    ("counters", {"counters__live": "1", "counters__on_disk": None}, {}, OPEN, "set NVreg_RestrictProfilingToAdminUsers=0"),
    ("counters", {"counters__live": "1", "counters__on_disk": "1"}, {}, OPEN, "set NVreg_RestrictProfilingToAdminUsers=0"),
    ("counters", {"counters__as_user__outcome": "refused"}, {}, OPEN, "a container or the hypervisor blocks it"),
    ("counters", {"counters__as_user__outcome": "no-ncu"}, {}, OPEN, "install ncu"),
    ("counters", {"counters__as_user__user": "root"}, {}, OPEN, "setpriv"),
    ("counters", {"counters__live": None}, {}, OPEN, "look there on the host"),
    ("counters", {"counters__on_disk": None}, {}, OPEN, "/etc/modprobe.d"),
    ("counters", CLOSED, GROUP, MEMBERS_ONLY, "--role counters --role base"),
    ("counters", {"counters__as_group": MEMBER}, GROUP, MEMBERS_ONLY, "set NVreg_RestrictProfilingToAdminUsers=1"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "outcome": "refused"}}, GROUP, MEMBERS_ONLY, "570 or later"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "outcome": "failed"}}, GROUP, MEMBERS_ONLY, "run the probe as root"),
    *[
        ("counters-on-disk", {"counters__by_command_line": True, "counters__as_group": MEMBER}, who, expected, "`update-grub`")
        for who, expected in (
            (ROOT, "NVreg_RestrictProfilingToAdminUsers=1 at the next load of the driver"),
            (
                GROUP,
                "NVreg_RestrictProfilingToAdminUsers=1, and with-counters gives members of gpuprov-counters CAP_PERFMON and nothing else",
            ),
        )
    ],
    ("counters-on-disk", {"counters__on_disk": None}, {}, "NVreg_RestrictProfilingToAdminUsers=0 at the next load of the driver", "--role"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)

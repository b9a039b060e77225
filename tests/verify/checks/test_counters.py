"""What the checks of counters say to which facts: a case for each outcome that each can have."""

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, table

GROUP = {"gpu__counters": "group"}
MEMBER = {"members": ["ada"], "capabilities": "0000004000000000", "outcome": "open", "said": ""}
CLOSED = {"counters__live": "1", "counters__on_disk": "1", "counters__as_user__outcome": "refused"}
CASES: list[Case] = [
    ("counters-on-disk", {}, {}, "pass", "set to 0"),
    ("counters-on-disk", {"gpu": good.NO_GPU, "counters__on_disk": None}, {}, "fail", "not set, which means 1"),
    ("counters-on-disk", {"counters__on_disk": None}, {"gpu__counters": "admin-only"}, "pass", "not set"),
    ("counters-on-disk", {}, {"gpu__counters": "admin-only"}, "fail", "set to 0"),
    ("counters-on-disk", {"counters": {"unknown": "x"}}, {}, "unknown", "x"),
    ("counters-on-disk", {}, GROUP, "fail", "no with-counters"),
    ("counters-on-disk", {"gpu": good.NO_GPU, "counters__on_disk": "1", "counters__as_group": MEMBER}, GROUP, "pass", "0000004000000000"),
    ("counters-on-disk", {"counters__on_disk": "0", "counters__as_group": MEMBER}, GROUP, "fail", "option 0"),
    ("counters-on-disk", {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "members": []}}, GROUP, "fail", "0 members"),
    ("counters-on-disk", {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "capabilities": None}}, GROUP, "unknown", "not seen"),
    (
        "counters-on-disk",
        {"counters__on_disk": "1", "counters__as_group": {**MEMBER, "capabilities": "000001ffffffffff"}},
        GROUP,
        "fail",
        "000001ffffffffff",
    ),
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
    ("counters", {}, {"gpu__counters": "admin-only"}, "not-applicable", ""),
    ("counters", {**CLOSED, "counters__as_group": MEMBER}, GROUP, "pass", "as a member: open"),
    ("counters", {"counters__as_group": MEMBER}, GROUP, "fail", "live 0"),
    ("counters", CLOSED, GROUP, "fail", "no with-counters"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "outcome": "refused"}}, GROUP, "fail", "as a member: refused"),
    ("counters", {**CLOSED, "counters__as_group": {**MEMBER, "outcome": "not-tried"}}, GROUP, "unknown", "not-tried"),
    ("counters", {**CLOSED, "counters__live": None, "counters__as_group": MEMBER}, GROUP, "unknown", "unreadable"),
    ("counters", {"gpu": good.NO_GPU}, GROUP, "unknown", "no NVIDIA GPU"),
]

test_table = table(CASES)

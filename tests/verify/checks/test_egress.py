"""What the check of the way out says to which facts."""

import hashlib
from typing import Any

from provision.profile.egress import APT_PROXY, SHELL_PROXY, files
from provision.profile.model import Sources
from tests.certificates import AUTHORITY

from .table import Case, table

PROXY = "http://proxy.example.org:3128"
ASKED: dict[str, Any] = {"sources__proxy": PROXY}
DIGESTS = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files(Sources(proxy=PROXY), "apt").items()}
LED: dict[str, Any] = {"egress__files": DIGESTS, "egress__apt_proxy": PROXY}
TRUSTING: dict[str, Any] = {
    "egress__authority": hashlib.sha256(AUTHORITY.encode()).hexdigest(),
    "egress__trusted": True,
    "egress__files": {
        path: hashlib.sha256(text.encode()).hexdigest() for path, text in files(Sources(ca=AUTHORITY), "apt").items() if text
    },
}
CASES: list[Case] = [
    ("egress", {}, {}, "not-applicable", "neither a proxy nor an authority"),
    ("egress", {"egress__apt_proxy": "http://image.example.org:1"}, {}, "not-applicable", ""),
    ("egress", {"egress__files": {APT_PROXY: "0" * 64}}, {}, "fail", f"{APT_PROXY} is left over"),
    ("egress", {"egress__authority": "0" * 64}, {}, "fail", "an authority is left over"),
    ("egress", LED, ASKED, "pass", "as it should be"),
    ("egress", {}, ASKED, "fail", f"{APT_PROXY} is missing; {SHELL_PROXY} is missing"),
    ("egress", {**LED, "egress__files": {**DIGESTS, APT_PROXY: "0" * 64}}, ASKED, "fail", f"={APT_PROXY} has another content"),
    ("egress", {**LED, "egress__apt_proxy": "http://other:1"}, ASKED, "fail", "apt goes through http://other:1"),
    ("egress", {**LED, "egress__apt_proxy": None}, ASKED, "fail", "apt goes through no proxy"),
    ("egress", TRUSTING, {"sources__ca": AUTHORITY}, "pass", ""),
    ("egress", {**TRUSTING, "egress__trusted": False}, {"sources__ca": AUTHORITY}, "fail", "the authority is not in the system's store"),
    ("egress", {**TRUSTING, "egress__authority": None}, {"sources__ca": AUTHORITY}, "fail", "the authority is missing"),
    ("egress", {**TRUSTING, "egress__authority": "0" * 64}, {"sources__ca": AUTHORITY}, "fail", "another authority"),
    ("egress", {"egress": None}, {}, "unknown", "no fact"),
]

test_table = table(CASES)

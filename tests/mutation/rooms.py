"""The rooms whose code is mutated, because money, security or truth is in them, and the quick tests of each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """One room.

    Attributes:
        code: patterns of the modules that are changed.
        tests: the files and folders whose tests run, and what pytest is told besides.
        imported_from: the folder that Python imports the code from, where that is not the repository.
    """

    code: tuple[str, ...]
    tests: tuple[str, ...]
    imported_from: str = ""


# What launches, what keeps the record of it, and what an order is made of. Tests of these rooms start no embedded cloud.
_LAUNCH = ("attempts", "cost", "edits", "launcher", "lifecycle", "moment", "ours", "patience", "place", "plan", "regions", "sweep")
_LAUNCH_TESTS = (
    "attempts",
    "attempts_baked",
    "attempts_cleared",
    "cost",
    "edits",
    "launcher",
    "machines",
    "ours",
    "patience",
    "plan",
    "resume",
    "sweep",
    "whole",
    "zones",
)
_RECORDS = ("audit", "chain", "fleets", "journal")
_ORDERS = ("ahead", "ask", "baked", "fleet_orders", "permissions", "price")
_CHECKS = ("base", "counters", "disk", "gpu", "health", "links", "perf", "sessions", "skew", "surroundings")
_MADE_CHECKS = ("settings", "stack", "system")
_CLOUD = ("requests", "firewall", "removal")
_COLLECTIONS = ("asking", "driver", "entries", "ledger", "not_built", "preflight", "remember", "secure_boot", "settle", "undo")
_SIGNATURES = ("sign", "sign_keygen", "approval", "agreement", "bundle", "bundle_bounds", "accept", "accept_parts", "where")
# They take seconds, so each survivor would, and other tests of these rooms say the same case by case.
_SECONDS = (
    "verify/checks/test_perf.py::test_any_leaf_may_be_anything_without_a_traceback",
    "verify/checks/test_base.py::test_the_tier_travels_and_what_it_leaves_out_is_not_run",
)
_BITS = (
    "review/test_sign.py::test_one_bit_flipped_in_any_byte_of_an_approval_or_its_signature_is_refused",
    "review/test_bundle.py::test_one_bit_flipped_in_any_byte_that_is_the_zips_own_is_refused_with_its_part",
)
# Ansible sends these modules to a host, and there is no mutmut.
_BY_ANSIBLE = (
    "playbooks/test_entries.py::test_apt_reads_its_sources_after_the_set_up_and_after_an_undo",
    "playbooks/test_entries.py::test_apt_reads_ours_beside_the_systems_own_archive_with_the_other_name_of_its_keyring",
)


def _without(tests: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"--deselect=tests/{name}" for name in tests)


ROOMS = {
    "launch": Room(
        tuple(f"provision/launch/{name}.py" for name in _LAUNCH),
        tuple(f"tests/launch/test_{name}.py" for name in _LAUNCH_TESTS),
    ),
    "records": Room(tuple(f"provision/launch/{name}.py" for name in _RECORDS), tuple(f"tests/launch/test_{name}.py" for name in _RECORDS)),
    "orders": Room(tuple(f"provision/launch/{name}.py" for name in _ORDERS), tuple(f"tests/launch/test_{name}.py" for name in _ORDERS)),
    "aws": Room(
        tuple(f"provision/clouds/aws/{name}.py" for name in _CLOUD),
        tuple(f"tests/clouds/aws/test_{name}.py" for name in ("capacity", "requests", "firewall", "removal", "removal_order")),
    ),
    "gcp": Room(
        tuple(f"provision/clouds/gcp/{name}.py" for name in _CLOUD),
        tuple(f"tests/clouds/gcp/test_{name}.py" for name in ("capacity", "requests", "requests_whole", "firewall", "ownership")),
    ),
    "digitalocean": Room(("provision/clouds/digitalocean/requests.py",), ("tests/clouds/digitalocean/test_requests.py",)),
    "checks": Room(tuple(f"provision/verify/checks/{name}.py" for name in _CHECKS), ("tests/verify/checks", *_without(_SECONDS))),
    "checks-made": Room(
        tuple(f"provision/verify/checks/{name}.py" for name in _MADE_CHECKS),
        tuple(f"tests/verify/checks/test_{name}.py" for name in _MADE_CHECKS),
    ),
    "measured": Room(
        ("provision/verify/bench/verdict.py", "provision/verify/codes.py", "provision/verify/checks/bench.py"),
        (
            "tests/verify/bench/test_verdict.py",
            "tests/verify/checks/test_bench.py",
            "tests/verify/checks/test_health.py",
            "tests/verify/checks/test_stack.py",
            "tests/verify/test_codes.py",
        ),
    ),
    "counters": Room(
        ("provision/verify/probe/counters.py",), ("tests/verify/probe/test_counters.py",), imported_from="provision/verify/probe"
    ),
    "rules": Room(("provision/catalog/rules.py",), ("tests/catalog/test_rules.py",)),
    "load": Room(("provision/profile/load.py",), ("tests/profile/test_load.py", "tests/profile/test_load_files.py")),
    "signatures": Room(
        tuple(f"provision/review/{name}.py" for name in ("sign", "approval", "bundle", "accept", "where")),
        (*(f"tests/review/test_{name}.py" for name in _SIGNATURES), *_without(_BITS)),
    ),
    "collections": Room(
        ("playbooks/collections/ansible_collections/gpuprov/host/plugins/mod*/*.py",),
        (*(f"tests/playbooks/test_{name}.py" for name in _COLLECTIONS), *_without(_BY_ANSIBLE)),
        imported_from="playbooks/collections",
    ),
}

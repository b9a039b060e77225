"""Google's package without its `__init__`: the same names, sooner."""

import json
import subprocess
import sys
from typing import Any

# Each in a process of its own: what is measured is the first import.
OURS = "from provision.clouds.gcp import sdk; package = sdk.compute()"
THEIRS = "from google.cloud import compute_v1 as package"


def told(script: str) -> Any:
    return json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def test_every_name_of_the_package_is_found_and_is_the_same_class() -> None:
    names = told(f"{THEIRS}\nimport json; print(json.dumps([n for n in package.__all__ if n != '__version__']))")
    assert len(names) > 1000
    look = "\nimport json, sys; print(json.dumps({n: getattr(package, n).__module__ for n in json.loads(sys.argv[1])}))"
    asked = json.dumps(names)

    def modules(first: str) -> Any:
        done = subprocess.run([sys.executable, "-c", first + look, asked], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    assert modules(OURS) == modules(THEIRS)


def test_the_package_s_own_init_is_not_run_for_the_clients_that_we_use() -> None:
    script = f"{OURS}\nimport json, sys; package.InstancesClient, package.FirewallsClient\n"
    loaded = told(
        script + "print(json.dumps(sorted(m.split('.')[4] for m in sys.modules if m.startswith('google.cloud.compute_v1.services.'))))"
    )
    assert set(loaded) == {"instances", "firewalls", "zone_operations", "global_operations"}  # each brings its operations along


def test_an_import_statement_elsewhere_finds_what_was_loaded() -> None:
    script = (
        f"{OURS}\nfrom google.cloud import compute_v1\nimport json; print(json.dumps(compute_v1 is package and bool(compute_v1.Instance)))"
    )
    assert told(script) is True


def test_a_name_that_the_layout_does_not_show_is_looked_for_by_the_package_itself() -> None:
    script = (
        f"{OURS}\nimport json\ntry:\n    package.NoSuchThing\nexcept AttributeError:\n    print(json.dumps(len(package.__all__) > 1000))"
    )
    assert told(script) is True

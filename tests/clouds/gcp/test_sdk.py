"""Client classes without the package's own `__init__`: the same classes, sooner."""

import json
import subprocess
import sys
from typing import Any

# Each in a process of its own: the first import is what counts.
OURS = "from provision.clouds.gcp.sdk import client_class\n"


def answer(script: str) -> Any:
    return json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def test_every_client_of_the_package_is_found() -> None:
    find = "import json; from google.cloud import compute_v1\nnames = [n for n in compute_v1.__all__ if n.endswith('Client')]\n"
    wrong = answer(f"{OURS}{find}print(json.dumps([n for n in names if client_class(n) is not getattr(compute_v1, n)]))")
    assert wrong == []


def test_only_the_services_that_are_used_are_imported() -> None:
    script = f"{OURS}client_class('InstancesClient'); client_class('FirewallsClient')\nimport json, sys\n"
    services = "sorted(m.split('.')[4] for m in sys.modules if m.startswith('google.cloud.compute_v1.services.'))"
    assert set(answer(f"{script}print(json.dumps({services}))")) == {"instances", "firewalls", "zone_operations", "global_operations"}


def test_the_whole_package_is_there_for_whoever_asks_it_for_a_name() -> None:
    script = f"{OURS}first = client_class('InstancesClient')\nfrom google.cloud import compute_v1\nimport json\n"
    same = "compute_v1.InstancesClient is first and len(compute_v1.__all__) > 1000 and bool(compute_v1.Instance)"
    assert answer(f"{script}print(json.dumps({same}))") is True


def test_a_name_that_does_not_exist_is_an_error_of_its_own() -> None:
    script = f"{OURS}client_class('InstancesClient')\nfrom google.cloud import compute_v1\nimport json\n"
    assert answer(f"{script}print(json.dumps(hasattr(compute_v1, 'NoSuchThing')))") is False

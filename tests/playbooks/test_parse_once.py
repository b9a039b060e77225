"""The callback that saves parsing, on the installed Ansible's own builder of modules."""

from __future__ import annotations

import json
import subprocess
import sys

from provision.paths import playbooks_dir

PLUGIN = playbooks_dir() / "collections/ansible_collections/gpuprov/host/plugins/callback/parse_once.py"
# In a process of its own: Ansible's loader changes how Python imports.
SCRIPT = """
import collections, datetime, importlib.util, io, json, sys, zipfile
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
from ansible.executor import module_common

spec = importlib.util.spec_from_file_location("parse_once", sys.argv[1])
plugin = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plugin)
try:
    from ansible._internal._ansiballz import _builder
except ImportError:  # before 2.19: nothing is done
    plugin.CallbackModule().v2_playbook_on_start(None)
    sys.exit(print("null"))
module = b"from ansible.module_utils.basic import AnsibleModule\\nfrom ansible.module_utils.facts import timeout\\n"
parses = collections.Counter()
parse = module_common._compile_module_ast

def count(name, source):
    parses[name] += 1
    return parse(name, source)

def payload():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        extensions = _builder.ExtensionManager.create(task_vars={})
        now = datetime.datetime.now(datetime.timezone.utc)
        module_common.recursive_finder("two", "ansible.modules.two", module, archive, now, extensions)
        return sorted(archive.namelist())

before = payload()
module_common._compile_module_ast = count
plugin.keep_trees(module_common)
for_all = parses.total()
payload()
first = parses.total()
same = payload() == before
second = parses.total() - first
del module_common._compile_module_ast
plugin.CallbackModule().v2_playbook_on_start(None)  # other internals: nothing is done
print(json.dumps({"same": same, "for_all": for_all, "second": second, "basic": parses["ansible.module_utils.basic"]}))
"""


def test_a_module_utility_is_parsed_once_and_sent_with_every_module() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(PLUGIN)], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    if result is None:
        return
    assert (result["same"], result["basic"]) == (True, 1), result
    assert result["for_all"] > 20, result
    assert result["second"] == 0, result


def test_every_run_uses_it() -> None:
    assert "callbacks_enabled = gpuprov.host.parse_once" in (playbooks_dir() / "ansible.cfg").read_text().splitlines()

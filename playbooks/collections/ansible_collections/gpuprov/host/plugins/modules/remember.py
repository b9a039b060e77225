#!/usr/bin/python
"""Record which packages a host has before roles add theirs."""

from __future__ import annotations

DOCUMENTATION = """
module: remember
short_description: Record which packages a host has before roles add theirs
description:
  - In check mode it reports which packages would be installed.
  - The first record stays, so that a run that is repeated after an interruption does not take its own packages for older ones.
options:
  packages_by_role: {description: The packages of each role., type: dict, required: true}
author: [gpuprov]
"""
EXAMPLES = """
- name: Record which packages are installed
  gpuprov.host.remember:
    packages_by_role: {cudnn: [libcudnn9-cuda-12]}
"""
RETURN = """
missing: {description: The packages of these roles that are not installed, for apt at their version., returned: always, type: list}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuprov.host.plugins.module_utils.ledger import Ledger, installed_packages, is_installed


def main():
    """As Ansible calls it."""
    module = AnsibleModule(argument_spec={"packages_by_role": {"type": "dict", "required": True}}, supports_check_mode=True)
    ledger, packages = Ledger("packages"), installed_packages()
    before = ledger.data.get("before")
    by_role = ledger.data.get("wanted", {})
    more = {role: sorted(set(by_role.get(role, [])) | set(names)) for role, names in module.params["packages_by_role"].items()}
    if not module.check_mode and (before is None or dict(by_role, **more) != by_role):
        ledger.data["before"] = sorted(packages) if before is None else before
        ledger.data["wanted"] = dict(by_role, **more)
        ledger.save()
    names = {name for names in module.params["packages_by_role"].values() for name in names}
    missing = sorted(name for name in names if not is_installed(name, packages))
    # A package manager cannot simulate an installation from a repository that the dry run has not written.
    predicted = {"prepared": "".join("+ package %s\n" % name for name in missing)}
    module.exit_json(changed=module.check_mode and bool(missing), missing=missing, diff=[predicted] if missing else [])


if __name__ == "__main__":
    main()

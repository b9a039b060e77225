#!/usr/bin/python
"""Note which packages a host has before a role adds its own."""

from __future__ import annotations

DOCUMENTATION = """
module: remember
short_description: Note which packages a host has before roles add theirs
description:
  - In check mode it tells which packages would be installed.
  - The first note is kept, so that a run that was interrupted and made again does not take its own packages for what was there before.
options:
  wanted: {description: Role and the packages that it asks for., type: dict, required: true}
author: [gpuprov]
"""
EXAMPLES = """
- name: Note what is installed
  gpuprov.host.remember:
    wanted: {cudnn: [libcudnn9-cuda-12]}
"""
RETURN = """
missing: {description: Those of the wanted packages that are not installed., returned: always, type: list}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuprov.host.plugins.module_utils.ledger import Ledger, bare, installed


def main():
    """As Ansible calls it."""
    module = AnsibleModule(argument_spec={"wanted": {"type": "dict", "required": True}}, supports_check_mode=True)
    ledger, present = Ledger("packages"), installed()
    before = ledger.data.get("before")
    wanted = ledger.data.get("wanted", {})
    fresh = {role: sorted(set(wanted.get(role, [])) | set(names)) for role, names in module.params["wanted"].items()}
    if not module.check_mode and (before is None or dict(wanted, **fresh) != wanted):
        ledger.data["before"] = sorted(present) if before is None else before
        ledger.data["wanted"] = dict(wanted, **fresh)
        ledger.save()
    names = {name for names in module.params["wanted"].values() for name in names}
    missing = sorted(name for name in names if bare(name, present) is None)
    # A package manager cannot simulate what comes from a repository that a dry run has not written.
    predicted = {"prepared": "".join("+ package %s\n" % name for name in missing)}
    module.exit_json(changed=module.check_mode and bool(missing), missing=missing, diff=[predicted] if missing else [])


if __name__ == "__main__":
    main()

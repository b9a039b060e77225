#!/usr/bin/python
"""Put back what roles changed on this host."""

from __future__ import annotations

DOCUMENTATION = """
module: undo
short_description: Put back what roles changed on this host
description:
  - Files, links and packages become what they were before these roles first changed them, and units that were not enabled or active are
    disabled and stopped. The last role is undone first.
options:
  roles: {description: Roles in the order in which they ran., type: list, elements: str, required: true}
author: [gpuprov]
"""
EXAMPLES = """
- name: Undo the clocks
  gpuprov.host.undo:
    roles: [clocks]
"""
RETURN = """
changes: {description: One line for each change that was or would be made., returned: always, type: list}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuprov.host.plugins.module_utils.ledger import (
    Ledger,
    bare,
    installed_packages,
    must_run,
    put_back,
    run,
    state_of,
    unit_state,
)


class Undoing:
    """One run of the module."""

    def __init__(self, module):
        self.module = module
        self.changes = []

    def role(self, name):
        """One role's units, files and commands."""
        ledger = Ledger(name)
        for unit, before in ledger.data["units"].items():
            self.unit(unit, before)
        for path, before in reversed(list(ledger.data["files"].items())):
            if state_of(path) != before and before["kind"] != "folder":
                self.changes.append("%s: %s" % (path, {"absent": "removed"}.get(before["kind"], "put back")))
                if not self.module.check_mode:
                    self.put_back(path, before)
        for argv in ledger.data["undo"]:
            self.changes.append(" ".join(argv))
            if not self.module.check_mode:
                must_run(self.module, argv)
        for folder in sorted(ledger.data["folders"], reverse=True):
            if os.path.isdir(folder) and not os.listdir(folder) and not self.module.check_mode:
                os.rmdir(folder)
        if not self.module.check_mode and os.path.exists(ledger.path):
            run(["systemctl", "daemon-reload"])
            os.unlink(ledger.path)

    def put_back(self, path, before):
        """One path; where that is not possible, the record stays, and a later run goes on here."""
        try:
            put_back(path, before)
        except OSError as error:
            self.module.fail_json(msg="%s cannot be put back: %s; move away what is there, and undo again" % (path, error.strerror))

    def unit(self, name, before):
        """One unit."""
        now = unit_state(name)
        if now["active"] and not before["active"]:
            self.changes.append("stop %s" % name)
            if not self.module.check_mode:
                must_run(self.module, ["systemctl", "stop", name])
        if now["enabled"] and not before["enabled"]:
            self.changes.append("disable %s" % name)
            if not self.module.check_mode:
                must_run(self.module, ["systemctl", "disable", "--quiet", name])

    def packages(self, roles):
        """The packages that belong to these roles only, and their dependencies."""
        ledger = Ledger("packages")
        by_role, before = ledger.data.get("wanted", {}), set(ledger.data.get("before", []))
        present = installed_packages()
        others = {bare(n, present) for role, names in by_role.items() if role not in roles for n in names}
        ours = {bare(n, present) for role in roles for n in by_role.get(role, [])}
        surplus = sorted(name for name in present.keys() & ours if name not in before and name not in others)
        if surplus:
            self.changes.append("remove %s" % " ".join(surplus))
            if not self.module.check_mode:
                self.remove(surplus, before)
        if not self.module.check_mode and by_role:
            ledger.data["wanted"] = {role: names for role, names in by_role.items() if role not in roles}
            if ledger.data["wanted"]:
                ledger.save()
            elif os.path.exists(ledger.path):
                os.unlink(ledger.path)

    def remove(self, surplus, before):
        """Remove packages, and dependencies of theirs that nothing needs any more and that are not older than our roles."""
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        if os.path.exists("/usr/bin/apt-get"):
            must_run(self.module, ["apt-mark", "unhold", *surplus])
            must_run(self.module, ["apt-get", "purge", "--yes", "--quiet", *surplus])
            # An older package may recommend or suggest one of our dependencies; it worked without it before.
            weak = ["-o", "APT::AutoRemove::RecommendsImportant=false", "-o", "APT::AutoRemove::SuggestsImportant=false"]
            output = run(["apt-get", *weak, "--simulate", "autoremove"])[1]
            orphans = [line.split()[1] for line in output.splitlines() if line.startswith("Remv ")]
            orphans = [name for name in orphans if name not in before]
            if orphans:
                must_run(self.module, ["apt-get", "purge", "--yes", "--quiet", *orphans])
        else:
            must_run(self.module, ["dnf", "remove", "--assumeyes", "--quiet", *surplus])


def main():
    """As Ansible calls it."""
    module = AnsibleModule(argument_spec={"roles": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True)
    undoing = Undoing(module)
    roles = module.params["roles"]
    for role in reversed(roles):
        if role != "packages":  # its record is needed last
            undoing.role(role)
    undoing.packages(roles)
    diff = [{"prepared": "\n".join(undoing.changes)}] if undoing.changes else []
    module.exit_json(changed=bool(undoing.changes), changes=undoing.changes, diff=diff)


if __name__ == "__main__":
    main()

#!/usr/bin/python
"""Bring the files, links, units and follow-up commands of one role into their state, and record the state before."""

from __future__ import annotations

DOCUMENTATION = """
module: settle
short_description: Bring files, links, units and follow-up commands of one role into their state
description:
  - Writes files and links in one step each, then runs the commands that must follow them, then settles units.
  - Before a change, the state before goes to /var/lib/gpuprov/changes/ROLE.json; the module gpuprov.host.undo puts it back.
  - A follow-up command is recorded with the digest of the files and links it follows, and only after it succeeded. If a run is interrupted
    between a file and its command, the next run runs the command.
options:
  role: {description: The role that makes these changes., type: str, required: true}
  files:
    description: Files with their content.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: The path., type: path, required: true}
      content: {description: The whole text., type: str, required: true}
      mode: {description: Octal., type: str, default: "0644"}
      owner: {description: User., type: str, default: root}
      group: {description: Group., type: str, default: root}
      validate: {description: A command that must accept the file first, type: list, elements: str}
  links:
    description: Symbolic links.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: The path., type: path, required: true}
      target: {description: The target of the link., type: str, required: true}
  noted: {description: Paths that another task will write; undo makes them what they are now., type: list, elements: path, default: []}
  absent: {description: Paths of files that must not be., type: list, elements: path, default: []}
  follow:
    description: Commands that must have run since the files and links changed.
    type: list
    elements: dict
    default: []
    suboptions:
      argv: {description: The command., type: list, elements: str, required: true}
      undo: {description: The command after an undo; by default the same command., type: list, elements: str}
      also: {description: Another value (such as a version) whose change makes it run again., type: str, default: ""}
      needs: {description: A path that must exist and be writable; otherwise the command does not apply to this host., type: path}
      proof: {description: A command that succeeds while the effect holds; without it only changes count., type: list, elements: str}
  units:
    description: Units of systemd; restarted when a file of this role has changed since their last restart.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: The unit., type: str, required: true}
      enabled: {description: At boot., type: bool, default: true}
      started: {description: Now., type: bool, default: true}
      optional: {description: Whether the unit may fail to start., type: bool, default: false}
      proof: {description: A command that fails where the unit must be restarted; without it only changes count., type: list, elements: str}
author: [gpuprov]
"""
EXAMPLES = """
- name: Open the counters at the next load of the driver
  gpuprov.host.settle:
    role: counters
    files: [{path: /etc/modprobe.d/gpuprov-counters.conf, content: "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n"}]
    follow: [{argv: [update-initramfs, -u, -k, all]}]
"""
RETURN = """
changes: {description: One line for each change that was or would be made., returned: always, type: list}
"""

import base64
import difflib
import hashlib
import json
import os
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuprov.host.plugins.module_utils.ledger import (
    Ledger,
    ids,
    link,
    missing_folders,
    must_run,
    run,
    state_of,
    unit_state,
    write,
)


class Settling:
    """One run of the module."""

    def __init__(self, module):
        self.module = module
        self.ledger = Ledger(module.params["role"])
        self.changes = []
        self.diffs = []

    def file(self, item):
        """Bring a file into its state."""
        try:
            uid, gid = ids(item["owner"], item["group"])
        except KeyError as error:
            if not self.module.check_mode:
                raise
            self.changes.append("%s (%s)" % (item["path"], error))
            return
        content = item["content"].encode()
        target = {"kind": "file", "content": base64.b64encode(content).decode(), "mode": int(item["mode"], 8), "uid": uid, "gid": gid}
        if item.get("validate") and state_of(item["path"]) != target:
            self.validate(item, content)
        self.path(item["path"], target, lambda: write(item["path"], content, target["mode"], uid, gid))

    def validate(self, item, content):
        """Refuse a content that its own program does not accept: a broken file of some folders stops the whole program."""
        with tempfile.NamedTemporaryFile() as trial:
            trial.write(content)
            trial.flush()
            code, output = run([*item["validate"], trial.name])
        if code:
            self.module.fail_json(
                msg="%s is not put in place: %s refuses it: %s" % (item["path"], item["validate"][0], output.strip()[-1000:])
            )

    def path(self, path, target, act):
        """Bring a path into its state."""
        before = state_of(path)
        if before == target:
            return
        if before["kind"] == "folder":
            self.module.fail_json(msg="%s is a folder, and a %s belongs there: move it away" % (path, target["kind"]))
        self.changes.append(path)
        self.diffs.append(difference(path, before, target))
        if not self.module.check_mode:
            self.ledger.note("files", path, before)
            for folder in missing_folders(path):
                self.ledger.note("folders", folder, True)
            # All follow-up commands must run again for the new state, even if this run ends here. Nothing follows a task that has none.
            if self.module.params["follow"] or self.module.params["units"]:
                self.ledger.data["stamps"] = {}
            self.ledger.save()
            act()

    def absent(self, path):
        """Remove a file."""
        self.path(path, {"kind": "absent"}, lambda: os.unlink(path))

    def stamp(self, key, also, act, what, proof=None):
        """Act after a change of the files, unless that has happened since they have this content and the effect still holds."""
        parameters = self.module.params
        files = [{key: value for key, value in item.items() if key != "validate"} for item in parameters["files"]]
        basis = [files, parameters["links"], parameters["absent"], also]
        digest = hashlib.sha256(json.dumps(basis, sort_keys=True).encode()).hexdigest()
        if self.ledger.data["stamps"].get(key) == digest and (proof is None or run(proof)[0] == 0):
            return False
        self.changes.append(what)
        if not self.module.check_mode:
            act()
            self.ledger.data["stamps"][key] = digest
            self.ledger.save()
        return True

    def command(self, item):
        """Run a command if it must follow a change."""
        argv = item["argv"]
        if item["needs"] and not os.access(item["needs"], os.W_OK):
            return
        undo = argv if item["undo"] is None else item["undo"]

        def act():
            if undo and undo not in self.ledger.data["undo"]:
                self.ledger.data["undo"].append(undo)
                self.ledger.save()
            must_run(self.module, argv)

        self.stamp(" ".join(argv), item["also"], act, " ".join(argv), item["proof"])

    def unit(self, item):
        """Bring a unit into its state."""
        name = item["name"]
        before = unit_state(name)
        if before["stale"] and not self.module.check_mode:
            must_run(self.module, ["systemctl", "daemon-reload"])
            before = unit_state(name)
        if not before["exists"] and not self.module.check_mode:
            self.module.fail_json(msg="there is no unit %s" % name)
        if item["enabled"] != before["enabled"]:
            verb = "enable" if item["enabled"] else "disable"
            self.changes.append("%s %s" % (verb, name))
            if not self.module.check_mode:
                self.ledger.note("units", name, {"enabled": before["enabled"], "active": before["active"]})
                must_run(self.module, ["systemctl", verb, "--quiet", name])
        if not item["started"]:
            return

        def start():
            self.ledger.note("units", name, {"enabled": before["enabled"], "active": before["active"]})
            code, output = run(["systemctl", "restart", name])
            if code and not item["optional"]:
                self.module.fail_json(msg="%s does not start: %s" % (name, output.strip()[-1000:]))

        if not self.stamp("unit " + name, "", start, "restart %s" % name, item["proof"]) and not before["active"] and not item["optional"]:
            self.changes.append("start %s" % name)
            if not self.module.check_mode:
                must_run(self.module, ["systemctl", "start", name])


def difference(path, before, after):
    """What changes, as a unified diff."""

    def lines(state):
        if state["kind"] == "file":
            return base64.b64decode(state["content"]).decode("utf-8", "replace").splitlines(keepends=True)
        return ["-> %s\n" % state["target"]] if state["kind"] == "link" else []

    text = "".join(difflib.unified_diff(lines(before), lines(after), "%s (before)" % path, "%s (after)" % path))
    if not text and before.get("mode") != after.get("mode"):
        text = "%s: mode %o -> %o\n" % (path, before.get("mode", 0), after.get("mode", 0))
    return {"prepared": text or "%s: another owner\n" % path}


def main():
    """As Ansible calls it."""
    a_file = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str", "required": True},
        "mode": {"type": "str", "default": "0644"},
        "owner": {"type": "str", "default": "root"},
        "validate": {"type": "list", "elements": "str"},
        "group": {"type": "str", "default": "root"},
    }
    a_link = {"path": {"type": "path", "required": True}, "target": {"type": "str", "required": True}}
    a_command = {
        "argv": {"type": "list", "elements": "str", "required": True},
        "undo": {"type": "list", "elements": "str"},
        "also": {"type": "str", "default": ""},
        "needs": {"type": "path"},
        "proof": {"type": "list", "elements": "str"},
    }
    a_unit = {
        "name": {"type": "str", "required": True},
        "enabled": {"type": "bool", "default": True},
        "started": {"type": "bool", "default": True},
        "optional": {"type": "bool", "default": False},
        "proof": {"type": "list", "elements": "str"},
    }
    several = {"type": "list", "elements": "dict", "default": []}
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "files": dict(several, options=a_file),
            "links": dict(several, options=a_link),
            "noted": {"type": "list", "elements": "path", "default": []},
            "absent": {"type": "list", "elements": "path", "default": []},
            "follow": dict(several, options=a_command),
            "units": dict(several, options=a_unit),
        },
        supports_check_mode=True,
    )
    settling = Settling(module)
    for path in module.params["noted"] if not module.check_mode else []:
        settling.ledger.note("files", path, state_of(path))
    for item in module.params["files"]:
        settling.file(item)
    for item in module.params["links"]:
        settling.path(item["path"], {"kind": "link", "target": item["target"]}, lambda it=item: link(it["path"], it["target"]))
    for path in module.params["absent"]:
        settling.absent(path)
    for item in module.params["follow"]:
        settling.command(item)
    for item in module.params["units"]:
        settling.unit(item)
    module.exit_json(changed=bool(settling.changes), changes=settling.changes, diff=settling.diffs)


if __name__ == "__main__":
    main()

#!/usr/bin/python
"""Fail with the reason for which a package's own script built no module."""

from __future__ import annotations

DOCUMENTATION = """
module: not_built
short_description: Fail with the reason for which a package's own script built no module
description: DKMS's error comes first, then the first error of the log that it names, then what the package manager says.
options:
  said: {description: What the package manager says of the failure., type: str, required: true}
  printed: {description: What it and the scripts of the packages printed., type: str, required: true}
author: [gpuprov]
"""
EXAMPLES = """
- name: Say why a module was not built
  gpuprov.host.not_built: {said: "{{ done.msg }}", printed: "{{ done.stdout }}"}
"""
RETURN = """
printed: {description: The end of what was printed., returned: always, type: str}
"""

import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuprov.host.plugins.module_utils.dkms import DKMS, first_error


def main():
    """As Ansible calls it."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(argument_spec={"said": text, "printed": text}, supports_check_mode=True)
    printed = module.params["printed"]
    why = [line.strip() for line in printed.splitlines() if line.startswith("Error! ")][:1]
    named = re.search(re.escape(DKMS) + r"/\S+/make\.log", printed)
    try:
        why += [first_error(named.group())] if named else []
    except OSError as error:
        why.append(str(error))
    module.fail_json(msg="%s; %s" % (": ".join(why), module.params["said"].strip()), printed=printed[-4000:])


if __name__ == "__main__":
    main()

"""Parses Ansible's module utilities once for a run, and loads its filters and tests once.

To send a module, Ansible parses every module utility that it imports, which is nearly the same sixty files for each module. It does so in a
process that it forks for the task, so that the next module begins anew: a third of the CPU time of a run. Here the files are parsed in the
process that all others are forked from. Filters and tests are loaded there too, for which each task otherwise takes 10 ms.

It only saves time. Where an Ansible has other internals, nothing is done.
"""

import datetime as dt
import functools
import io
import zipfile

from ansible.executor import module_common
from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import filter_loader, test_loader

DOCUMENTATION = """
name: parse_once
type: aggregate
short_description: parses Ansible's module utilities once for a run
description:
  - Keeps the syntax trees of module utilities for all tasks of a run.
"""
_PING = b"from ansible.module_utils.basic import AnsibleModule\n"


class CallbackModule(CallbackBase):
    """Hears of the run's start, before the first task is forked."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuprov.host.parse_once"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook):  # noqa: ARG002 - Ansible gives it
        """Keep syntax trees from here on, and make those that every module needs."""
        filter_loader.get("bool")
        test_loader.get("match")
        try:
            keep_trees(module_common)
        except (AttributeError, ImportError, TypeError) as error:
            self._display.vv(f"module utilities are parsed for each module: {error}")


def keep_trees(builder):
    """Make Ansible's builder of modules keep the syntax trees that it makes.

    Args:
        builder: `ansible.executor.module_common`.

    Raises:
        AttributeError, ImportError, TypeError: this Ansible has other internals.
    """
    from ansible._internal._ansiballz import _builder

    builder._compile_module_ast = functools.lru_cache(maxsize=None)(builder._compile_module_ast)  # noqa: SLF001 - Ansible has no other door
    now = dt.datetime.now(dt.timezone.utc)
    with zipfile.ZipFile(io.BytesIO(), "w") as payload:
        builder.recursive_finder("ping", "ansible.modules.ping", _PING, payload, now, _builder.ExtensionManager.create(task_vars={}))

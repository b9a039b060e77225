"""What somebody may mean who writes a command that does not exist: the words of other tools, and words that are spelled alike."""

from collections.abc import Iterable, Mapping
from typing import Final

import click

from provision.errors import UsageError
from provision.nearest import meant

_SYNONYMS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "": {
        **dict.fromkeys(("destroy", "delete", "terminate", "remove", "rm", "kill"), ("down",)),
        **dict.fromkeys(("list", "status", "ps", "show", "instances"), ("ls",)),
        **dict.fromkeys(("init", "new", "create", "generate"), ("profile new",)),
        **dict.fromkeys(("launch", "run", "deploy", "provision"), ("up",)),
        **dict.fromkeys(("check", "validate", "test"), ("profile check", "verify")),
        **dict.fromkeys(("connect", "shell", "exec", "login"), ("ssh",)),
        **dict.fromkeys(("halt", "pause", "poweroff", "suspend"), ("stop",)),
        **dict.fromkeys(("resume", "boot", "poweron"), ("start",)),
        **dict.fromkeys(("setup", "configure", "converge", "install"), ("apply",)),
        **dict.fromkeys(("profiles", "templates"), ("profile list",)),
        **dict.fromkeys(("upload", "put"), ("push",)),
        **dict.fromkeys(("download", "get"), ("pull",)),
        **dict.fromkeys(("cp", "copy", "scp", "rsync"), ("push", "pull")),
        **dict.fromkeys(("prices", "price", "types"), ("catalog instances",)),
        **dict.fromkeys(("gpus", "gpu"), ("catalog gpus",)),
        **dict.fromkeys(("estimate", "preview", "dry-run"), ("plan",)),
        **dict.fromkeys(("costs", "bill", "billing", "spend"), ("cost",)),
        **dict.fromkeys(("cleanup", "clean", "gc", "prune"), ("sweep",)),
        **dict.fromkeys(("autostop", "auto-stop", "idle-stop"), ("idle",)),
        **dict.fromkeys(("approve",), ("sign",)),
        **dict.fromkeys(("inventory", "hostfile", "ray", "slurm", "ssh-config", "engines"), ("export",)),
        **dict.fromkeys(("refresh", "update"), ("catalog refresh",)),
        **dict.fromkeys(("rollback", "revert"), ("undo",)),
        **dict.fromkeys(("facts",), ("probe",)),
        **dict.fromkeys(("why",), ("explain",)),
        **dict.fromkeys(("error", "errors", "code"), ("explain-error",)),
        **dict.fromkeys(("asg", "group", "autoscale", "scale", "fleets"), ("fleet",)),
        **dict.fromkeys(("image", "images", "ami", "snapshot", "packer"), ("bake make", "bake list")),
    },
    "profile": {
        **dict.fromkeys(("init", "create", "generate"), ("profile new",)),
        **dict.fromkeys(("validate", "verify", "lint"), ("profile check",)),
        **dict.fromkeys(("ls",), ("profile list",)),
        **dict.fromkeys(("cat", "view"), ("profile show",)),
    },
    "catalog": {
        **dict.fromkeys(("update", "sync"), ("catalog refresh",)),
        **dict.fromkeys(("prices", "types", "list", "ls"), ("catalog instances",)),
    },
}
"""Group → word → the commands that do that; the group of the first word is empty."""

_KEYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("spot", "use-spot", "preemptible", "interruptible", "on-demand"), "places.0.market"),
    **dict.fromkeys(("gpu", "gpu-type", "accelerator", "accelerators"), "gpu.model"),
    **dict.fromkeys(("gpus", "gpu-count", "num-gpus"), "gpu.count"),
    **dict.fromkeys(("region", "regions"), "places.0.regions"),
    **dict.fromkeys(("zone", "zones"), "places.0.zones"),
    **dict.fromkeys(("cloud", "infra", "provider", "backend"), "places.0.cloud"),
    **dict.fromkeys(("instance-type", "machine-type", "instance", "type", "size"), "places.0.instance_type"),
    **dict.fromkeys(("disk-size", "disk", "boot-disk-size", "volume-size", "storage"), "disks.root.size_gb"),
    **dict.fromkeys(("image", "image-id", "ami"), "places.0.image"),
    **dict.fromkeys(("max-price", "price", "budget"), "limits.price_per_hour_usd"),
    **dict.fromkeys(("ttl", "max-duration", "max-run-duration", "deadline"), "limits.deadline_h"),
    **dict.fromkeys(("ssh-key", "key-name", "user"), "users"),
    **dict.fromkeys(("tag", "tags", "label", "labels"), "tags"),
    **dict.fromkeys(("subnet", "network", "vpc"), "network.subnet"),
}
"""Option of other tools, without its hyphens → the key of a profile that says the same."""


def no_option(error: click.NoSuchOption) -> UsageError:
    """The error for an option that the command lacks; the key of a profile where another tool has it as an option."""
    command = error.ctx.command_path if error.ctx else "gpuprov"
    if key := _KEYS.get(error.option_name.lstrip("-")):
        hint = f"the profile says it, in {key}: `gpuprov profile new` writes a profile, and `gpuprov plan` says what it costs"
        return UsageError(f"{command} has no option {error.option_name}", hint=hint)
    return UsageError(error.format_message(), hint=f"`{command} --help` shows the usage")


def suggestion(word: str, names: Iterable[str], group: str = "") -> UsageError:
    """The error for a word that is not a command.

    Args:
        word: what was written.
        names: the commands that exist there.
        group: the command before it; empty for the first word.
    """
    synonyms = _SYNONYMS.get(group, {})
    own = {name: (f"{group} {name}".strip(),) for name in names}
    known = {**synonyms, **own}
    commands = tuple(dict.fromkeys(command for near in meant(word, known) for command in known[near]))
    instead = f"did you mean {' or '.join(f'`gpuprov {command}`' for command in commands)}? " if commands else ""
    path = f"gpuprov {group}".strip()
    msg = f"no command called {f'{group} {word}'.strip()!a}"
    return UsageError(msg, hint=f"{instead}`{path} --help` lists {'its' if group else 'all'} commands")

"""What somebody may mean who writes a command that does not exist: the words of other tools, and words that are spelled alike."""

from collections.abc import Iterable, Mapping
from typing import Final

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

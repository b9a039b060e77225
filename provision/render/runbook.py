"""A runbook in Markdown: what `up` does, as numbered commands to type, each with its check, and the way back.

Every value is filled in and quoted for the shell. Only what the clouds answer on the way (ids, the address) is in variables. The runbook
has no free text of the profile in it.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

from provision import clouds
from provision.clouds.forms import Hole, Subject
from provision.clouds.shell import Step, Var, Word, command, written_file
from provision.render.base import login
from provision.render.cloud_init import user_data

_DOCUMENT: Final = ("user-data.yml", "cloud-init status --wait")
_SCRIPT: Final = ("startup-script.sh", "systemctl is-system-running --wait")  # where images of the system have no cloud-init
_ADDRESS: Final = Var("ADDRESS")
_HEAD: Final = """# Runbook: {name}, {option}

Profile `{profile}`, sha256 `{digest}`, lock sha256 `{lock}`.

Run the commands in this order in one shell (bash, or any POSIX shell); go on only if the check shows what it should. They create what
`gpuprov up` creates, with the same tags, so `gpuprov ls` and `gpuprov down` find it. The machine ends itself at {deadline}. The way
back is at the end, and works after any step.

You need {tools}, `ssh`, `ansible-playbook`, the private key of `{key}`, and in this folder `{profile}-ansible/`, which
`gpuprov render {profile} --as ansible -o {profile}-ansible` writes.
"""


def render(subject: Subject) -> dict[str, bytes]:
    """The runbook, in one file."""
    cloud = clouds.runbook(subject.cloud)
    head = _HEAD.format(
        name=subject.name,
        option=subject.place,
        profile=subject.profile,
        digest=subject.profile_sha256,
        lock=subject.lock_sha256,
        deadline=subject.filled([Hole("deadline")]),
        tools=cloud.TOOLS,
        key=subject.given.public_key,
    )
    boot = user_data(subject)
    file, wait = _DOCUMENT if boot.startswith("#cloud-config") else _SCRIPT
    steps = [*cloud.before(subject), _first_boot(file, boot), *cloud.machine(subject, file), *_host(subject, wait)]
    text = [head, *_numbered(steps), "## The way back\n", *_undone(cloud.undo(subject))]
    return {"runbook.md": "\n".join(text).encode()}


def _numbered(steps: list[Step]) -> Iterator[str]:
    for number, step in enumerate(steps, 1):
        yield f"## {number}. {step.title}\n"
        yield from _blocks(step)


def _undone(steps: list[Step]) -> Iterator[str]:
    for number, step in enumerate(steps, 1):
        yield f"{number}. {step.title}\n"
        yield from _blocks(step)


def _blocks(step: Step) -> Iterator[str]:
    if step.commands:
        yield _fenced(step.commands)
    if step.checks:
        yield f"Check: {step.expected}\n"
        yield _fenced(step.checks)


def _fenced(commands: tuple[str, ...]) -> str:
    """Commands as a block of code, which a line of them cannot end: the fence is longer than any run of backticks in them."""
    body = "\n".join(commands)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}sh\n{body}\n{fence}\n"


def _first_boot(file: str, content: str) -> Step:
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Step(
        "Write what the first boot does: the deadline, and no login with a password",
        (written_file(file, content),),
        (command("sha256sum", file),),
        f"`{digest}`.",
    )


def _host(subject: Subject, wait: str) -> list[Step]:
    """What is done on the machine, whichever cloud it is at."""
    user = login(subject)
    there: Word = [f"{user}@", _ADDRESS]
    strict: tuple[Word, ...] = ("ssh", "-o", "StrictHostKeyChecking=yes", there)
    folder = f"{subject.profile}-ansible"
    reached: tuple[Word, ...] = ("-i", [_ADDRESS, ","], "-u", user, "-e", "@variables.json")
    run = command("ansible-playbook", *reached, "site.yml")
    return [
        Step(
            "Log in, and wait for the end of the first boot",
            (command(*strict, wait),),
            (command(*strict, "systemctl is-active gpuprov-deadline.timer"),),
            "`active`.",
        ),
        Step(
            "Set the machine up",
            (command("cd", folder), run),
            (run, command("cd", "..")),
            "`changed=0` and `failed=0`: a second run has nothing to do.",
        ),
        Step(
            "Prove it",
            (),
            (command("gpuprov", "verify", there, "--profile", subject.profile),),
            "no line says fail or unknown, and the exit code is 0.",
        ),
    ]

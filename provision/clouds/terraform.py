"""What both Terraform forms share: how texts are written, and their variables, and the deadline.

The forms are folders. What Terraform makes is JSON (developer.hashicorp.com/terraform/language/syntax/json) and no HCL: json.dumps writes
it, it needs no formatter, and what remains to be escaped are the two openings of a template, `${` and `%{`. What the machine does at its
first boot is in files of their own, to be read: `file` evaluates nothing in them, and `replace` fills in the holes
(developer.hashicorp.com/terraform/language/functions). `main.tf.json` accepts them by their digests alone, so its own covers the folder.
The deadline is reckoned in the hour of the first apply and then kept, as `up` does it; so is the launch's id.
"""

import datetime as dt
import hashlib
import json
from typing import Any, Final

from provision.clouds import userdata
from provision.clouds.forms import KEY_PATTERN, Hole, HoleName, Marked, Parts, Subject, dumped

_HOLES: Final[dict[HoleName, str]] = {
    "launch": "terraform_data.launch.output",
    "key": "var.public_key",
    "caller": "var.caller_cidr",
    "deadline": "terraform_data.deadline.output",
    "timer": "formatdate(\"YYYY-MM-DD hh:mm:ss 'UTC'\", terraform_data.deadline.output)",
    "late-timer": 'formatdate("YYYY-MM-DD hh:mm:ss \'UTC\'", timeadd(terraform_data.deadline.output, "10m"))',
}
_REQUIRED: Final = ">= 1.4"  # terraform_data
_PROGRAM: Final = "first-boot.py"
_README: Final = """# Terraform of {profile}: one machine, {place}

`gpuprov render` wrote this folder from the profile (SHA-256 `{profile_sha256}`) and its lock (SHA-256 `{lock_sha256}`).
`main.tf.json` is all that Terraform makes. It accepts only these other files:

{files}

`@…@` in them stands for a value that `main.tf.json` fills in.

```sh
terraform init
terraform plan -out plan{variables}
terraform apply plan          # prints the address and the deadline
terraform destroy             # removes everything
```

Then prove the machine with `gpuprov verify LOGIN@ADDRESS --profile {profile}`.
"""


def text(parts: Parts) -> str:
    """A text in which Terraform evaluates the holes and nothing else."""
    return "".join(expression(_HOLES[piece.name]) if isinstance(piece, Hole) else _inert(piece) for piece in parts)


def expression(code: str) -> str:
    """What Terraform evaluates: ours, never a profile's."""
    return "${" + code + "}"


def _inert(piece: str) -> str:
    return piece.replace("${", "$${").replace("%{", "%%{")


def folder(subject: Subject, marked: Marked, boot: str, configuration: dict[str, Any]) -> dict[str, bytes]:
    """The files of a configuration in which `boot`, the text of the first boot, is a value.

    The program in it is a third file; it is put back as JSON has it.
    """
    parts = marked.parts(boot)
    tokens = {piece.name: f"@{piece.name}-{subject.mark(piece.name)[:8]}@" for piece in parts if isinstance(piece, Hole)}
    content = "".join(tokens[piece.name] if isinstance(piece, Hole) else piece for piece in parts)
    name = "user-data.yml" if boot.startswith("#cloud-config") else "user-data.sh"
    code, program, files = _read(name), userdata.program(), {}
    if (escaped := json.dumps(program)[1:-1]) in content:
        token = f"@{_PROGRAM}-{subject.mark(_PROGRAM)[:8]}@"
        content, files[_PROGRAM] = content.replace(escaped, token), program.encode()
        put_back = _read(_PROGRAM)
        for character in ("\\", '"', "\n"):
            put_back = f"replace({put_back}, {json.dumps(character)}, {json.dumps(json.dumps(character)[1:-1])})"
        code = f'replace({code}, "{token}", {put_back})'
    for hole, token in tokens.items():
        code = f'replace({code}, "{token}", {_HOLES[hole]})'
    files[name] = content.encode()
    digests = {file: hashlib.sha256(data).hexdigest() for file, data in files.items()}
    checks = (
        (expression(f'filesha256("${{path.module}}/{file}") == "{digest}"'), f"{file} is not the one that was rendered.")
        for file, digest in digests.items()
    )
    precondition = [{"condition": condition, "error_message": message} for condition, message in checks]
    configuration["resource"]["terraform_data"]["launch"]["lifecycle"] |= {"precondition": precondition}
    written = dumped(configuration).replace(dumped(text(parts)).rstrip(), dumped(expression(code)).rstrip())
    readme = _README.format(
        profile=subject.profile,
        place=subject.place,
        profile_sha256=subject.profile_sha256,
        lock_sha256=subject.lock_sha256,
        files="\n".join(f"- `{file}`, SHA-256 `{digest}`" for file, digest in digests.items()),
        variables="".join(f" -var '{variable}=…'" for variable, block in configuration["variable"].items() if "default" not in block),
    )
    return {"README.md": readme.encode(), "main.tf.json": written, **files}


def _read(name: str) -> str:
    return f'file("${{path.module}}/{name}")'


def document(
    subject: Subject,
    *,
    source: str,
    version: str,
    provider: dict[str, Any],
    resources: dict[str, Any],
    outputs: dict[str, str],
    **more: Any,
) -> dict[str, Any]:
    """A whole configuration.

    Args:
        subject: whose it is.
        source: the provider's address; its last part is its name.
        version: the provider's constraint.
        provider: its arguments.
        resources: type → name → arguments.
        outputs: name → expression; the deadline is added.
        more: other blocks of the top level; variables go to ours.
    """
    name = source.rpartition("/")[2]
    fixed = {"ignore_changes": ["input"]}
    later = expression(f"formatdate(\"YYYY-MM-DD'T'hh:mm:ss'+00:00'\", timeadd(timestamp(), \"{subject.deadline_h}h\"))")
    ends = subject.given.deadline
    deadline = ends.astimezone(dt.UTC).isoformat(timespec="seconds") if ends else later
    about = f"gpuprov: profile {subject.profile} sha256:{subject.profile_sha256}, lock sha256:{subject.lock_sha256}, {subject.place}"
    return {
        "//": _inert(about),
        "terraform": {"required_version": _REQUIRED, "required_providers": {name: {"source": source, "version": version}}},
        "provider": {name: provider},
        "variable": {**_variables(subject), **more.pop("variables", {})},
        "resource": {
            "terraform_data": {
                "launch": {"input": expression('replace(uuid(), "-", "")'), "lifecycle": {**fixed}},
                "deadline": {"input": deadline, "lifecycle": fixed},
            },
            **resources,
        },
        **more,
        "output": {name: {"value": expression(code)} for name, code in (outputs | {"deadline": "terraform_data.deadline.output"}).items()},
    }


def check_empty(rest: dict[str, Any]) -> None:
    """Fail for a field of a request that a form has no word for."""
    if rest:
        msg = f"the request has fields that Terraform has no word for: {', '.join(rest)}"
        raise AssertionError(msg)


def _variables(subject: Subject) -> dict[str, Any]:
    """What to fill in when it is applied; a value that the subject already has is the default."""
    values = subject.given
    variables: dict[str, Any] = {
        "public_key": {
            "type": "string",
            "description": "The OpenSSH public key that may log in first: type and key, without comment.",
            "validation": [
                {
                    "condition": expression(f"can(regex({json.dumps(KEY_PATTERN)}, var.public_key))"),
                    "error_message": "Not an OpenSSH public key of type and key alone.",
                }
            ],
            **({"default": values.public_key} if values.public_key else {}),
        }
    }
    if subject.from_caller:
        variables["caller_cidr"] = {
            "type": "string",
            "description": "The one address that SSH is let in from beside the networks of the profile, as 203.0.113.7/32.",
            "validation": [
                {
                    "condition": expression('can(cidrnetmask(var.caller_cidr)) && can(regex("/32$", var.caller_cidr))'),
                    "error_message": "Not one IPv4 address, written as 203.0.113.7/32.",
                }
            ],
            **({"default": values.caller} if values.caller else {}),
        }
    return variables

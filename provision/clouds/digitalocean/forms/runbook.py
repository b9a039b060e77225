"""The steps of a runbook on DigitalOcean, out of the requests that `up` sends: with curl, so that each is the very same."""

from typing import Any, Final

from provision.clouds.base import OWNER_TAG
from provision.clouds.digitalocean import requests
from provision.clouds.forms import Marked, Subject
from provision.clouds.shell import ADDRESS, Step, Var, Word, address_step, captured, command, forget_step, packed, piped, written_file

TOOLS: Final = "`curl` (7.76 or newer), `jq`, a token in DIGITALOCEAN_TOKEN"
"""What a reader of the runbook needs on the machine."""
_API: Final = "https://api.digitalocean.com/v2/"
_HEADER, _FIREWALL_FILE, _DROPLET_FILE, _KEYS = "header.txt", "firewall.json", "droplet.json", "host-key.txt"
_DROPLET, _FIREWALL, _VOLUME = Var("DROPLET"), Var("FIREWALL"), Var("VOLUME")


class _DigitalOcean:
    """One region, with the requests filled in."""

    def __init__(self, subject: Subject) -> None:
        marked = Marked(subject)
        order, self.subject = marked.order, subject
        (self.host,) = requests.hosts(order)
        tag = requests.launch_tag(order.launch_id, order.name, order.tags.get(OWNER_TAG, ""))
        filled = subject.order(launch_id=marked.launch_id, public_key=order.public_key, deadline=order.deadline)
        self.public, self.has_volume = filled.public_address, bool(filled.volume_gb and not filled.instance_store)
        self.tag: str = marked.written(tag, subject.filled)
        self.firewall: dict[str, Any] = marked.written(requests.firewall(order.name, tag, order.ssh_from), subject.filled)
        self.droplet: dict[str, Any] = marked.written(requests.droplet(order, self.host, subject.region), subject.filled)
        self.volume: dict[str, Any] = marked.written(requests.volume(order, self.host, subject.region), subject.filled)
        ends = subject.given.deadline
        if ends is not None:  # it is escaped in the tag, where no mark can be found
            own = requests.deadline_tag(marked.launch_id, requests.moment(ends))
            for request in (self.droplet, self.volume):
                request["tags"] = [own if each.startswith("gpuprov:deadline:") else each for each in request["tags"]]


def _call(verb: str, path: Word, *words: Word) -> str:
    """One call of the API."""
    start: tuple[Word, ...] = ("curl", "--silent", "--show-error", "--fail-with-body", "--request", verb, "--header", f"@{_HEADER}")
    return command(*start, *words, [_API, *((path,) if isinstance(path, str | Var) else path)])


def _sent(path: str, *data: Word) -> str:
    return _call("POST", path, "--header", "Content-Type: application/json", "--data", *data)


def before(subject: Subject) -> list[Step]:
    """What the machine needs."""
    here = _DigitalOcean(subject)
    made = piped(_sent("firewalls", f"@{_FIREWALL_FILE}"), command("jq", "--raw-output", ".firewall.id"))
    return [
        Step(
            "Write the token where only you can read it, and see whose it is",
            ("umask 077", f'printf "Authorization: Bearer %s\\n" "${{DIGITALOCEAN_TOKEN}}" > {_HEADER}'),
            (piped(_call("GET", "account"), command("jq", ".account.team.name, .account.droplet_limit")),),
            "the team that the machine is meant for, and a limit above the droplets that it has.",
        ),
        Step("Make the tag that binds the firewall to the droplet", (_sent("tags", packed({"name": here.tag})),)),
        Step(
            "Make the firewall, before there is a droplet",
            (written_file(_FIREWALL_FILE, packed(here.firewall)), captured(_FIREWALL.name, made)),
            (piped(_call("GET", ["firewalls/", _FIREWALL]), command("jq", "--compact-output", ".firewall.inbound_rules, .firewall.tags")),),
            "port 22 from the profile's networks, and the tag.",
        ),
        *_data_volume(here),
    ]


def _data_volume(here: _DigitalOcean) -> list[Step]:
    if not here.has_volume:
        return []
    made = piped(_sent("volumes", packed(here.volume)), command("jq", "--raw-output", ".volume.id"))
    return [Step("Make the data volume", (captured(_VOLUME.name, made),), (command("echo", _VOLUME),), "an id.")]


def machine(subject: Subject, user_data: str) -> list[Step]:
    """The machine, its address and its host key."""
    here = _DigitalOcean(subject)
    plain = {key: value for key, value in here.droplet.items() if key != "user_data"}
    volumes: tuple[Word, ...] = ("--arg", "volume", _VOLUME) if here.has_volume else ()
    program = ". + {user_data: $data, volumes: [$volume]}" if here.has_volume else ". + {user_data: $data}"
    body = piped(command("jq", "--rawfile", "data", user_data, *volumes, program, _DROPLET_FILE), _sent("droplets", "@-"))
    kind = "public" if here.public else "private"
    found = f'.droplet.networks.v4[] | select(.type == "{kind}") | .ip_address'
    look = piped(_call("GET", ["droplets/", _DROPLET]), command("jq", "--raw-output", found))
    return [
        Step(
            "Start the machine",
            (
                written_file(_DROPLET_FILE, packed(plain)),
                captured(_DROPLET.name, piped(body, command("jq", "--raw-output", ".droplet.id"))),
            ),
            (piped(_call("GET", ["droplets/", _DROPLET]), command("jq", "--compact-output", ".droplet | [.status, .size_slug, .tags]")),),
            f"`active`, `{here.droplet['size']}`, and the tags (repeat it while it is `new`).",
        ),
        address_step(look),
        Step(
            "Compare its host key with the one that the Recovery Console shows, and accept it only then",
            (f"{command('ssh-keyscan', '-t', 'ed25519', ADDRESS)} > {_KEYS}",),
            (command("ssh-keygen", "-l", "-f", _KEYS),),
            "the ED25519 fingerprint that cloud-init printed on the droplet's Recovery Console, which only the control panel has.",
        ),
        Step("Accept it", (f"cat {_KEYS} >> ~/.ssh/known_hosts",), (command("ssh-keygen", "-F", ADDRESS, "-l"),), "that fingerprint."),
    ]


def undo(subject: Subject) -> list[Step]:
    """The way back, in the order in which things depend on one another."""
    here = _DigitalOcean(subject)
    volume = [Step("Delete the data volume, when it is detached", (_call("DELETE", ["volumes/", _VOLUME]),))] if here.has_volume else []
    names = f'.tags[].name | select(contains("{here.tag.split(":")[2]}"))'
    left = piped(_call("GET", "tags?per_page=200"), command("jq", "--raw-output", names))
    return [
        Step("Delete the machine, which ends what it costs; switched off it costs as much", (_call("DELETE", ["droplets/", _DROPLET]),)),
        *volume,
        Step("Delete the firewall", (_call("DELETE", ["firewalls/", _FIREWALL]),)),
        Step(
            "Delete the tags that only this launch has",
            (f"{left} |\nwhile read -r tag; do {_call('DELETE', ['tags/', Var('tag')])}; done",),
        ),
        forget_step(),
        Step("Look for what is left", (), (left, command("rm", "-f", _HEADER)), "nothing."),
    ]

"""Both Terraform forms: what Terraform says of them, where it and the provider are here, and what an apply makes at the embedded AWS.

Terraform loads providers from its registry, which no test asks: AWS's is looked for in a folder of this machine (a filesystem mirror).
Where it is not, and for Google's provider always, names are held against the providers' own documents.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

import boto3
import pytest

from provision.clouds import provider
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.userdata import program
from provision.rehearsal.control import Rehearsal
from provision.render import render
from provision.structs import replace

from .cases import CALLER, DEADLINE, EVIL, GIVEN, KEY, SUBJECTS, profile, subject
from .made import Made, keys_of, rows
from .test_digitalocean import of as droplet

MIRROR = Path(os.environ.get("GPUPROV_TERRAFORM_MIRROR", "/opt/tf-plugins"))
TERRAFORM = shutil.which("terraform") or shutil.which("tofu")
needs_provider = pytest.mark.skipif(
    TERRAFORM is None or not (MIRROR / "registry.terraform.io/hashicorp/aws").is_dir(),
    reason="needs terraform and its AWS provider in a filesystem mirror (GPUPROV_TERRAFORM_MIRROR)",
)
CASES = [("terraform-aws", name) for name in SUBJECTS if name.startswith("aws")] + [
    ("terraform-gcp", name) for name in SUBJECTS if name.startswith("gcp")
]
# The arguments that exist, of the blocks that are used: website/docs/r/{compute_firewall,compute_instance_template,
# compute_instance_from_template}.html.markdown of github.com/hashicorp/terraform-provider-google, as read on 2026-11-21 in the commits
# 05e5c00, 00b984c and 022e24a. termination_time is younger than those pages: it is in the provider's scheduling schema of release 6
# (pkg/services/compute of terraform-google-conversion/v6) and, for templates, in bindings made from its newest schema.
GOOGLE: dict[str, set[str]] = {
    "google_compute_firewall": {
        *("name", "network", "description", "direction", "priority", "source_ranges", "target_tags", "allow", "deny", "disabled"),
    },
    "google_compute_firewall.allow": {"protocol", "ports"},
    "google_compute_firewall.deny": {"protocol", "ports"},
    "google_compute_instance_template": {
        *("name", "name_prefix", "machine_type", "disk", "network_interface", "scheduling", "shielded_instance_config", "tags", "labels"),
        *("metadata", "guest_accelerator", "service_account", "lifecycle", "description", "region"),
        *("reservation_affinity", "resource_policies"),
    },
    "google_compute_instance_template.disk": {
        *(
            "auto_delete",
            "boot",
            "device_name",
            "disk_name",
            "disk_size_gb",
            "disk_type",
            "labels",
            "source_image",
            "type",
            "interface",
            "mode",
            "disk_encryption_key",
        ),
    },
    "google_compute_instance_template.disk.disk_encryption_key": {"kms_key_self_link", "kms_key_service_account"},
    "google_compute_instance_template.service_account": {"email", "scopes"},
    "google_compute_instance_template.network_interface": {"network", "subnetwork", "access_config", "nic_type"},
    "google_compute_instance_template.network_interface.access_config": {"nat_ip", "network_tier"},
    "google_compute_instance_template.scheduling": {
        *("automatic_restart", "on_host_maintenance", "preemptible", "provisioning_model", "instance_termination_action"),
        *("termination_time", "max_run_duration"),
    },
    "google_compute_instance_template.shielded_instance_config": {
        *("enable_secure_boot", "enable_vtpm", "enable_integrity_monitoring"),
    },
    "google_compute_instance_template.reservation_affinity": {"type", "specific_reservation"},
    "google_compute_instance_template.reservation_affinity.specific_reservation": {"key", "values"},
    "google_compute_instance_template.guest_accelerator": {"type", "count"},
    "google_compute_instance_template.lifecycle": {"create_before_destroy"},
    "google_compute_instance_from_template": {"name", "zone", "source_instance_template"},
}
FREE = {"labels", "metadata"}  # names of the user's own
# The embedded AWS closes each connection after its answer. On a busy machine the provider 5.100 now and then loses an answer ("use of
# closed network connection", with TF_LOG=DEBUG) and sends the call again, which EC2 refuses if it has no client token.
ASKED_TWICE = re.compile(r"InvalidGroup\.Duplicate|InvalidPermission\.(Duplicate|NotFound)")


SCRIPTED = subject("gcp", asked=profile(os={"name": "debian", "version": "12"}), given=GIVEN)  # whose image has no cloud-init
FORM_OF = {cloud: f"terraform-{cloud}" for cloud in ("aws", "gcp", "digitalocean")}


def configuration(form: str, case: str, given: Any = None) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(render(form, SUBJECTS[case](given))["main.tf.json"])
    return read


def templates(text: str) -> list[str]:
    """What Terraform would evaluate in a text: the openings that are not doubled."""
    plain = text.replace("$${", "").replace("%%{", "")
    return [part.partition("}")[0] for part in plain.split("${")[1:]] + ["%"] * plain.count("%{")


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else []


@pytest.mark.parametrize(("form", "case"), CASES)
def test_terraform_evaluates_our_expressions_and_no_text_of_a_profile(form: str, case: str) -> None:
    ours = (
        "terraform_data.",
        "var.",
        "data.aws_ssm_parameter.",
        "data.aws_subnet.",
        "data.google_compute_subnetwork.",
        "data.aws_kms_key.",
        "aws_",
        "google_",
        "substr(terraform_data.",
        "formatdate(",
        "replace(uuid()",
        "can(",
        "replace(",
        "filesha256(",
        "path.module",
    )
    made = configuration(form, case)
    found = [expression for text in texts(made) for expression in templates(text)]
    assert found
    assert [expression for expression in found if not expression.startswith(ours)] == []
    assert not any("pwned" in text for text in texts(made))


def test_an_opening_in_a_text_is_doubled() -> None:
    from provision.clouds.terraform import text

    assert templates(text([EVIL])) == []
    assert text(["a ${b} %{c} $${d}"]) == "a $${b} %%{c} $$${d}"


@pytest.mark.parametrize("case", [name for name in SUBJECTS if name.startswith("gcp")])
def test_googles_provider_knows_every_argument(case: str) -> None:
    def walk(at: str, block: dict[str, Any]) -> None:
        assert set(block) <= GOOGLE[at], at
        for name, value in block.items():
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, dict) and name not in FREE:
                    walk(f"{at}.{name}", inner)

    kinds = {kind: named for kind, named in configuration("terraform-gcp", case)["resource"].items() if kind != "terraform_data"}
    assert set(kinds) == {"google_compute_firewall", "google_compute_instance_template", "google_compute_instance_from_template"}
    for kind, named in kinds.items():
        for block in named.values():
            walk(kind, block)


def test_a_machine_on_gcp_ends_with_all_of_its_disks() -> None:
    template = configuration("terraform-gcp", "gcp-volume-spot")["resource"]["google_compute_instance_template"]["machine"]
    assert [disk["auto_delete"] for disk in template["disk"]] == [True, True]
    assert template["scheduling"]["instance_termination_action"] == "DELETE"
    assert template["scheduling"]["provisioning_model"] == "SPOT"
    assert "service_account" not in template


def test_the_machine_has_the_identity_of_its_place() -> None:
    assert configuration("terraform-aws", "aws-own")["resource"]["aws_instance"]["machine"]["iam_instance_profile"] == "gpu-node"
    assert "iam_instance_profile" not in configuration("terraform-aws", "aws")["resource"]["aws_instance"]["machine"]
    template = configuration("terraform-gcp", "gcp-own")["resource"]["google_compute_instance_template"]["machine"]
    scope = "https://www.googleapis.com/auth/cloud-platform"
    assert template["service_account"] == [{"email": "gpu-node@isa-gpu.iam.gserviceaccount.com", "scopes": [scope]}]
    runbook = render("runbook", SUBJECTS["gcp-own"](GIVEN))["runbook.md"].decode()
    assert f"--service-account gpu-node@isa-gpu.iam.gserviceaccount.com --scopes {scope}" in " ".join(runbook.replace("\\\n", " ").split())
    assert "no-service-account" not in runbook
    assert "no service account" not in runbook
    assert "boot-disk-kms-key" in runbook


def test_each_disk_names_the_key_of_its_place_and_an_alias_is_looked_up() -> None:
    made = configuration("terraform-aws", "aws-own")
    machine = made["resource"]["aws_instance"]["machine"]
    disks = [machine["root_block_device"], *machine["ebs_block_device"]]
    assert [disk["kms_key_id"] for disk in disks] == ["${data.aws_kms_key.disk.arn}"] * 2
    assert made["data"]["aws_kms_key"]["disk"]["key_id"] == "alias/isa/disks"
    assert "aws_ssm_parameter" in made["data"]
    template = configuration("terraform-gcp", "gcp-own")["resource"]["google_compute_instance_template"]["machine"]
    keys = [disk["disk_encryption_key"][0]["kms_key_self_link"] for disk in template["disk"]]
    assert keys == ["projects/isa-keys/locations/us-central1/keyRings/disks/cryptoKeys/gpu"] * 2


# --- with Terraform itself ----------------------------------------------------------------------------------------


@pytest.fixture
def terraform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    config = tmp_path / "terraformrc"
    config.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{MIRROR}"\n  }}\n}}\n')
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(config))
    monkeypatch.setenv("CHECKPOINT_DISABLE", "1")
    folder = tmp_path / "configuration"
    folder.mkdir()

    def run(*words: str, files: dict[str, bytes] | None = None) -> subprocess.CompletedProcess[str]:
        for name, content in (files or {}).items():
            (folder / name).write_bytes(content)
        assert TERRAFORM is not None
        return subprocess.run(
            [TERRAFORM, f"-chdir={folder}", *words, "-no-color"], check=False, capture_output=True, text=True, timeout=800
        )

    return run


@needs_provider
@pytest.mark.matrix(of=3)
@pytest.mark.parametrize("case", [name for name in SUBJECTS if name.startswith("aws")])
def test_terraform_validates_it_with_the_real_provider(case: str, terraform: Any) -> None:
    assert terraform("init", "-input=false", files=render("terraform-aws", SUBJECTS[case]())).returncode == 0
    done = terraform("validate", "-json")
    said = json.loads(done.stdout)
    assert (said["valid"], said["diagnostics"]) == (True, []), said


def first_boot(made: dict[str, Any]) -> str:
    """The one value that is read from a file."""
    (found,) = {text for text in texts(made["resource"]) if "/user-data." in text and not text.startswith("${filesha256")}
    return found


@pytest.mark.skipif(TERRAFORM is None, reason="needs terraform")
@pytest.mark.parametrize(
    "asked",
    [subject("aws", given=GIVEN), subject("gcp", given=GIVEN), SCRIPTED, droplet("plain", given=True)],
    ids=str.split("aws gcp script do"),
)
def test_the_files_of_the_first_boot_are_what_up_sends_and_no_others_are_accepted(asked: Any, terraform: Any) -> None:
    files = dict(render(FORM_OF[asked.cloud], asked))
    made = json.loads(files["main.tf.json"])
    kept = {"terraform_data": made["resource"]["terraform_data"]}
    here = {
        "variable": {**made["variable"], "project": {"default": "p"}},
        "resource": kept,
        "output": {"boot": {"value": first_boot(made)}},
    }
    files["main.tf.json"] = json.dumps(here).encode()
    assert terraform("init", files=files).returncode == 0
    done = terraform("apply", "-auto-approve", "-input=false")
    assert done.returncode == 0, done.stderr
    order = replace(asked.order(launch_id="f00d" * 8, public_key=KEY, deadline=DEADLINE), host_key="")
    said = json.loads(terraform("output", "-json").stdout)["boot"]["value"]
    assert said == provider(asked.cloud).user_data(order, asked.region)
    for name in files.keys() - {"README.md", "main.tf.json"}:
        refused = terraform("plan", "-input=false", files={**files, name: files[name] + b"# more\n"})
        assert refused.returncode == 1
        assert f"{name} is not the one that was rendered" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("case", SUBJECTS)
def test_a_folder_has_the_program_as_it_is_and_a_page_that_names_every_file(case: str) -> None:
    asked = SUBJECTS[case]()
    files = render(FORM_OF[asked.cloud], asked)
    readme = files["README.md"].decode()
    assert set(re.findall(r"^- `([^`]+)`", readme, re.MULTILINE)) == files.keys() - {"README.md", "main.tf.json"}
    assert len(first_boot(json.loads(files["main.tf.json"]))) < 900
    if "first-boot.py" in files:
        assert files["first-boot.py"].decode() == program()
        assert "def " not in files["user-data.yml"].decode()
    assert all(len(line) < 300 for line in readme.splitlines())


@pytest.mark.skipif(TERRAFORM is None, reason="needs terraform")
@pytest.mark.matrix(of=3)
@pytest.mark.parametrize("case", ["gcp", "gcp-volume-spot", "gcp-hostile"])
def test_terraform_reads_what_is_for_google_as_far_as_it_can_without_the_provider(case: str, terraform: Any) -> None:
    """Syntax, expressions and references of what needs no provider: the blocks of Google's resources are left out, their texts kept."""
    made = configuration("terraform-gcp", case)
    rest = {kind: made["resource"].pop(kind) for kind in list(made["resource"]) if kind != "terraform_data"}
    for name in ("provider", "output"):
        made.pop(name)
    made["terraform"].pop("required_providers")
    rest.pop("google_compute_instance_from_template")
    made["locals"] = {"every_text": rest}
    done = terraform("init", files={**render("terraform-gcp", SUBJECTS[case]()), "main.tf.json": json.dumps(made).encode()})
    assert done.returncode == 0, done.stderr
    said = json.loads(terraform("validate", "-json").stdout)
    assert (said["valid"], said["diagnostics"]) == (True, []), said


@pytest.mark.matrix(of=2)
@needs_provider
def test_an_apply_makes_what_up_makes(terraform: Any, ec2: Rehearsal, access: AwsAccess) -> None:
    subject = SUBJECTS["aws-volume-spot"](GIVEN)
    told, cloud = Made(ec2, subject.region), AwsCloud(subject.region, access)
    order = subject.order(launch_id=secrets.token_hex(16), public_key=KEY, deadline=DEADLINE)
    (instance,) = cloud.launch(replace(order, ssh_from=tuple(CALLER if n == "caller" else n for n in order.ssh_from)))
    by_up = told.of(instance.id)
    cloud.remove(cloud.things(subject.name), on_step=lambda _: None)  # a name belongs to one launch
    here = dict.fromkeys(("ec2", "ssm", "sts"), ec2.endpoints["aws"])
    owner = {
        name.removeprefix("aws_").removesuffix("_id").replace("secret_access_key", "secret_key"): key for name, key in keys_of(ec2).items()
    }
    skipped = {f"skip_{what}": True for what in ("credentials_validation", "requesting_account_id", "region_validation")}
    override = {"provider": {"aws": {**owner, "skip_metadata_api_check": "true", **skipped, "endpoints": [here]}}}
    files = {**render("terraform-aws", subject), "here_override.tf.json": json.dumps(override).encode()}
    assert terraform("init", "-input=false", files=files).returncode == 0
    for _ in range(3):
        done = terraform("apply", "-auto-approve", "-input=false")
        if done.returncode == 0 or not ASKED_TWICE.search(done.stderr):
            break
        cloud.remove(cloud.things(subject.name), on_step=lambda _: None)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(terraform("output", "-json").stdout)
    assert outputs["deadline"]["value"] == DEADLINE.isoformat()
    compared = rows(by_up, told.of(outputs["instance_id"]["value"]))
    print("\n".join(f"{'=' if same else '≠'} {field}: {left!r} | {right!r}" for field, left, right, same in compared))  # noqa: T201
    # The two that the form's own first lines name; hibernation, which the provider says that it does not want; and moto shows the groups
    # of its request at the interface alone.
    known = ("interface-tags.", "spot.0.Tags", "instance.HibernationOptions", "instance.SecurityGroups")
    assert [field for field, _, _, same in compared if not same and not field.startswith(known)] == []
    assert len(compared) > 60
    ec2_client = boto3.client("ec2", region_name=subject.region, endpoint_url=ec2.endpoints["aws"], **keys_of(ec2))
    ec2_client.terminate_instances(InstanceIds=[instance.id, outputs["instance_id"]["value"]])

"""What a review says of the machines' identities once the clouds were asked: on the page, in the bundle, and to whoever reads it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision import clouds
from provision.errors import BundleInvalidError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.review import bundle, identities, pages
from provision.review.tree import Risk
from provision.review.where import Organisation
from provision.workflow.review import ReviewResult, review_profile
from provision.workflow.session import silent, today
from tests.review.examples import changed

PROJECT_ACCOUNT = "gpu-node@isa-gpu.iam.gserviceaccount.com"
ON_GCP = ("gpu: t4\n", f"gpu: t4\n    identity: {{service_account: {PROJECT_ACCOUNT}}}\n")
Reviewed = Callable[..., ReviewResult]


def on_aws(role: str) -> tuple[str, str]:
    """The instance profile of a place; each test has one of its own, because the embedded account keeps its roles."""
    return "market: on-demand # spot", f"identity: {{instance_profile: {role}}}\n    market: on-demand # spot"


@pytest.fixture
def reviewed(ec2: Rehearsal, tmp_path: Path) -> Reviewed:
    """Review t4-train with words replaced, after asking the embedded clouds."""

    def review(*swaps: tuple[str, str], earlier: str | None = None, **settings: Any) -> ReviewResult:
        control.ask(ec2, "settings", method="PUT", body=settings)
        changed(tmp_path, *swaps)
        return review_profile(
            str(tmp_path / "t4-train.yml"),
            tmp_path / "made.bundle",
            earlier,
            Organisation(),
            lambda cloud, region: clouds.connect(cloud, region, clouds.access_from(cloud, ec2.settings(cloud))),
            say=silent,
        )

    return review


def risk_of(result: ReviewResult) -> Risk:
    (risk,) = [risk for risk in result.review.risks if risk.id == "identity"]
    return risk


def grant(ec2: Rehearsal, role: str, action: str, resource: str) -> None:
    """Give the role of the embedded account an inline policy."""
    iam = clouds.connect("aws", "us-east-1", clouds.access_from("aws", ec2.settings("aws")))._api.client("iam")  # type: ignore[attr-defined]
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": resource}]}
    iam.put_role_policy(RoleName=role, PolicyName="given", PolicyDocument=json.dumps(document))


@pytest.mark.parametrize(
    ("action", "resource", "severity"),
    [("s3:GetObject", "arn:aws:s3:::data/*", "low"), ("ec2:TerminateInstances", "*", "medium"), ("*", "*", "high")],
)
def test_the_risk_of_an_aws_role_has_the_grade_of_its_policies(
    ec2: Rehearsal, reviewed: Reviewed, action: str, resource: str, severity: str
) -> None:
    reviewed(on_aws(f"gpu-{severity}"))  # the embedded account makes the role when it is first named
    grant(ec2, f"gpu-{severity}", action, resource)
    result = reviewed(on_aws(f"gpu-{severity}"))
    risk = risk_of(result)
    assert (risk.severity, risk.key) == (severity, "places.0.identity")
    assert action in risk.reason
    assert today().isoformat() in risk.reason
    assert result.bundle is not None
    assert action in (result.bundle / "review.html").read_text()


@pytest.mark.parametrize(("role", "severity"), [("roles/logging.logWriter", "low"), ("roles/editor", "high")])
def test_the_risk_of_a_service_account_has_the_grade_of_its_roles(reviewed: Reviewed, role: str, severity: str) -> None:
    risk = risk_of(reviewed(ON_GCP, gce_bindings=[{"role": role, "members": [f"serviceAccount:{PROJECT_ACCOUNT}"]}]))
    assert (risk.severity, role in risk.reason) == (severity, True)


def test_what_may_not_be_read_stays_not_known_with_the_permission_that_is_missing(reviewed: Reviewed) -> None:
    allowed = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["ec2:*"], "Resource": ["*"]}]}
    risk = risk_of(reviewed(on_aws("gpu-unread"), allowed=allowed))
    assert risk.severity == "medium"
    assert "still not known" in risk.reason
    assert "iam:GetInstanceProfile" in risk.reason


def test_a_reader_of_the_bundle_makes_the_same_pages_of_it_and_a_changed_answer_is_seen(reviewed: Reviewed) -> None:
    made = reviewed(on_aws("gpu-node")).bundle
    assert made is not None
    whole = bundle.read(made)
    assert json.loads(whole.files[identities.FILE])["identities"][0]["place"] == 0
    assert pages.unlike(whole, today()) == []
    tampered = {**whole.files, identities.FILE: whole.files[identities.FILE].replace(b'"severity":"low"', b'"severity":"high"')}
    tampered[bundle.STATEMENT] = bundle.statement(whole.profile, whole.lock, None, tampered)
    bundle.write(made.with_name("other.bundle"), tampered)
    assert set(pages.unlike(bundle.read(made.with_name("other.bundle")), today())) == {"review.html", "review.md", "review.json"}


@pytest.mark.parametrize("raw", [b"[]", b"{", b'{"schema":"gpuprov-identities/2","on":"2026-11-23","identities":[]}', b"[" * 100_000])
def test_a_file_of_another_form_is_refused_by_name(reviewed: Reviewed, raw: bytes) -> None:
    made = reviewed(on_aws("gpu-node")).bundle
    assert made is not None
    files = {**bundle.read(made).files, identities.FILE: raw}
    files[bundle.STATEMENT] = bundle.statement(bundle.read(made).profile, bundle.read(made).lock, None, files)
    bundle.write(made, files)
    with pytest.raises(BundleInvalidError, match=identities.FILE):
        identities.of_bundle(bundle.read(made))


def test_a_role_that_was_widened_since_is_a_change_to_the_worse(ec2: Rehearsal, reviewed: Reviewed, tmp_path: Path) -> None:
    reviewed(on_aws("gpu-wider"))
    grant(ec2, "gpu-wider", "s3:GetObject", "arn:aws:s3:::data/*")
    reviewed(on_aws("gpu-wider"))
    (tmp_path / "made.bundle").rename(tmp_path / "old.bundle")
    grant(ec2, "gpu-wider", "*", "*")
    changes = reviewed(on_aws("gpu-wider"), earlier=str(tmp_path / "old.bundle")).changes
    assert changes is not None
    (shift,) = [shift for shift in changes if shift.subject == "risks"]
    assert (shift.direction, "low → high" in shift.text) == ("wider", True)


def test_a_profile_without_an_identity_asks_nobody(ec2: Rehearsal, reviewed: Reviewed) -> None:
    made = reviewed().bundle
    assert made is not None
    assert identities.FILE not in bundle.read(made).files
    assert control.ask(ec2, "calls") == []

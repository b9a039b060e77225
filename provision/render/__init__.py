"""Write a profile for other tools, from the same data that `up` launches with. Forms for only one cloud are in that cloud's folder."""

from typing import Final

from provision import clouds
from provision.clouds.forms import Form
from provision.errors import UsageError
from provision.launch.journal import check_name
from provision.render.base import ProfileSubject

FORMS: Final[dict[str, Form]] = {
    **{name: form for each in clouds.providers() for name, form in each.forms.items()},
    "cloud-init": Form("the user data of the first boot", "user-data.yml", f"{__name__}.cloud_init", needs=("deadline", "public_key")),
    "ansible": Form("a folder that sets a host up with ansible-playbook alone", None, f"{__name__}.ansible", launches=False),
    "runbook": Form(
        "numbered commands to type, with checks and the way back",
        "runbook.md",
        f"{__name__}.runbook",
        needs=("deadline", "public_key", "caller"),
    ),
}


def render(name: str, subject: ProfileSubject) -> dict[str, bytes]:
    """The files of a form by their path, the same bytes for equal subjects.

    Raises:
        UsageError: there is no such form, it is for another cloud, or it needs a value that is missing.
        ImageNotFoundError: no image of the profile's system is known there.
    """
    check_name(subject.name)
    if name not in FORMS:
        msg = f"there is no form {name!a} to render a profile in"
        raise UsageError(msg, hint=f"choose one of {', '.join(FORMS)}")
    form = FORMS[name]
    if form.cloud not in {None, subject.cloud}:
        msg = f"{name} is for {form.cloud}, and {subject.place} is at {subject.cloud}"
        raise UsageError(msg, hint=f"choose a place of the profile on {form.cloud}")
    form.require(name, subject)
    return form.render(subject)

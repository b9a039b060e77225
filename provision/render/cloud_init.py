"""The user data of the first boot, or its script, as `up` sends it, for a machine that somebody creates in a web console."""

from provision import clouds
from provision.clouds.forms import Marked, Subject


def render(subject: Subject) -> dict[str, bytes]:
    """The file. It holds the key where the cloud has no other way to bring it."""
    return {"user-data.yml": user_data(subject).encode()}


def user_data(subject: Subject) -> str:
    """The user data that the client of the subject's cloud would send."""
    marked = Marked(subject)
    document = clouds.provider(subject.cloud).user_data(marked.order, subject.region)
    return subject.filled(marked.parts(document))

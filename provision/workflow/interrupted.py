"""What to say after Ctrl-C: which machines of the launch still run, or may, and what they cost."""

from provision.launch import cost
from provision.workflow.session import Session


def still_runs(session: Session, name: str, *, certain: bool = True) -> str:
    """The hint for a launch, or one of its machines, by name; empty where nothing of it is known here.

    `certain` is false where the command was about to end or to stop it.
    """
    record = session.journal.of(name)
    if record is None or not (record.machines or record.pending):
        return ""
    regions = ", ".join(dict.fromkeys(machine.region for machine in record.machines)) or (record.pending.region if record.pending else "")
    sure = "still run" if len(record.machines) > 1 else "still runs"
    verb = sure if certain and record.machines else "may still run"
    price = cost.hourly_of(record)
    paid = "at no cost, in the embedded cloud" if record.rehearsal else "at a price that is not known"
    if price is not None and not record.rehearsal:
        paid = f"at {price:.3f} USD an hour"
    return (
        f"{', '.join(record.hosts)} {verb} in {regions} {paid}, until {record.deadline}; `gpuprov down {record.name}` removes it, "
        "the same command continues"
    )

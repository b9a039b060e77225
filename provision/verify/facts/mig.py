"""What the unit that splits the GPUs reached."""

from provision.verify.facts.base import Fact


class MigReportFacts(Fact):
    """A line a GPU, `<index> <state>`; None where the unit did not run since the boot."""

    name = "mig_report"
    lines: tuple[str, ...] | None

    @property
    def words(self) -> str:
        """The states of all GPUs, as part of a sentence."""
        return "the unit did not run at this boot" if self.lines is None else f"the unit reached: {'; '.join(self.lines) or 'no GPU'}"

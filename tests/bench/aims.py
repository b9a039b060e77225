"""What each row has to reach and where it began, so that a measurement stands beside it: "then", "aim" and "now".

"Then" was measured on 2 cores in November 2026, in one run with the peers. It says how far the client has come, and is compared with
nothing. "Now" is compared with "aim" alone.
"""

from dataclasses import dataclass

from tests.bench.row import Row

SOURCE = "then: measured in November 2026, before the rows were worked on; aim: what was set then"


@dataclass(frozen=True, slots=True)
class Aim:
    """What one row has to reach.

    Attributes:
        row: how the names of its rows begin.
        then: what it was.
        floor: what it cannot be less than, as it was in the same run.
        to_reach: its aim, in words.
        of_floor: the multiple of the floor that reaches it; 0 where it is no multiple.
        at_most: the figure in the row's unit that reaches it, or what is admitted on top of the multiple.
        program: in whose hands the floor is, where that is another program; empty where it is gpuprov's own.
    """

    row: str
    then: str
    floor: str
    to_reach: str
    of_floor: float = 0.0
    at_most: float = 0.0
    program: str = ""

    def limit(self, row: Row) -> float:
        """The largest figure that reaches the aim, in the row's unit."""
        return self.of_floor * row.floor + self.at_most

    def reached(self, row: Row) -> bool:
        """Whether it is reached: a multiple by the ratio of the pairs, which a busy machine moves less than the figure."""
        return row.ratio <= self.of_floor if self.of_floor and not self.at_most else row.figure <= self.limit(row)


AIMS = (
    Aim("1 verify", "1.83 s", "`ssh host true` 0.96 s", "<= 1.5 x ssh", of_floor=1.5, program="OpenSSH"),
    Aim("2 verify", "1.21 s", "`ssh host true` 0.34 s", "<= 2.2 x ssh", of_floor=2.2, program="OpenSSH"),
    Aim("3 command", "1.18 s", "python + one signed call", "<= 0.75 x then", at_most=0.75 * 1.18, program="boto3 and the cloud"),
    Aim("4 command", "1.94 s", "as AWS", "<= AWS's", of_floor=1.0),
    Aim("5 ls", "3.40 s", "one round trip and its signatures", "<= 1.5 x `ls` of one region", of_floor=1.5),
    Aim("6 64 machines", "1.39 x one", "one call", "<= 1.2 x one", of_floor=1.2),
    Aim("7 first", "13.0 s", "one Ansible start (1.0 CPU s) and its tasks", "<= 5 s", at_most=5.0, program="Ansible"),
    Aim("8 apply where all holds, 0 ms", "1.61 s", "ssh 0.34 s", "<= 1.0 s", at_most=1.0, program="OpenSSH"),
    Aim("8 apply where all holds, 40 ms", "2.22 s", "ssh 0.56 s", "<= 1.5 s", at_most=1.5, program="OpenSSH"),
    Aim("9 verify of 64 hosts, a host", "134 ms CPU", "`ssh`'s own CPU", "<= 1.3 x ssh's own CPU", of_floor=1.3, program="OpenSSH"),
    Aim("9 verify of 64 hosts, all", "", "one host", "<= 2 MB a host", of_floor=1.0, at_most=2.0 * 63),
    Aim("10 judge", "2.32 s", "reading and parsing them", "<= 1.5 x parsing", of_floor=1.5),
)


def aim_of(row: Row) -> Aim:
    """The aim of a row."""
    return next(aim for aim in AIMS if row.name.startswith(aim.row))

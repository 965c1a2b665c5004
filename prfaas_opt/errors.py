"""What can go wrong, and the exit code of each.

    PrfaasOptError
    ├── InputError          4  a file, a field or an override is wrong
    ├── InfeasibleError     3  no deployment meets the constraints
    ├── SolverError         5  a solver is missing, fails or stops at a limit
    ├── CheckFailedError    6  a declared check does not hold
    └── CertificationError  1  the program contradicts itself: a bug

Each carries its problems, all of them, so that a user mends a file once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, what was found and expected, and how to mend it."""

    code: str
    where: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        fix = f"\n    fix: {self.fix}" if self.fix else ""
        return f"{place}{self.message}{fix}"


class PrfaasOptError(Exception):
    """The root of all errors that a caller may want to handle."""

    exit_code: ClassVar[int] = 1
    status: ClassVar[str] = "error"

    def __init__(self, problems: Problem | Sequence[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class InputError(PrfaasOptError):
    """A file, a field or an override does not say what it must."""

    exit_code = 4


class InfeasibleError(PrfaasOptError):
    """No deployment meets the constraints; the problems name those that conflict."""

    exit_code = 3
    status = "infeasible"


class SolverError(PrfaasOptError):
    """A solver is not there, fails, or stops at a limit before it is done."""

    exit_code = 5


class CheckFailedError(PrfaasOptError):
    """A check that the user asked for does not hold."""

    exit_code = 6


class CertificationError(PrfaasOptError):
    """A solver's claim differs from what the equations give: a bug in this program."""

    exit_code = 1

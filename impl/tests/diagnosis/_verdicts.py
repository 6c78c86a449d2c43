"""The verdicts of the doctor, by short names."""

from typing import get_args

from impl.diagnosis._report import Verdict

FIXED, PROCESS, MACHINE, UNKNOWN = get_args(Verdict)

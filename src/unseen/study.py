"""Public names of `unseen.run`: read, plan and run studies, and write their reports."""

from unseen.run.execute import Outcome as Outcome
from unseen.run.execute import run_study as run_study
from unseen.run.record import make_report as make_report
from unseen.run.record import write_report as write_report
from unseen.run.study import Plan as Plan
from unseen.run.study import Study as Study
from unseen.run.study import plan_study as plan_study
from unseen.run.study import shipped_studies as shipped_studies

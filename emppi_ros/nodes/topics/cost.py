"""
The topic `emppi/cost`: what each term of the task's cost adds to that of the plan.

Names and numbers of one moment, as diagnostics are: a task's terms are its own, and standard
messages have no other pairs of both. Made by the node `markers`, while somebody listens.
"""

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from emppi_ros.nodes.common import convert
from emppi_ros.nodes.common.diagnostics import OK, WARN, show
from emppi_ros.session.plan_preview import PlanCost

COST = 'emppi/cost'
NAME = 'emppi: cost'
TOTAL = 'total'


def write_cost(stamp: float, stage: str, cost: PlanCost | None) -> DiagnosticArray:
    """Return the message of a plan's cost from the state measured at `stamp`, None: no plan."""
    status = DiagnosticStatus(level=OK, name=NAME)
    message = DiagnosticArray(status=[status])
    message.header.stamp = convert.to_stamp(stamp)
    if cost is None:
        status.level, status.message = WARN, 'no plan under way'
        return message
    if cost.diverged == 1.0:
        status.level, status.message = WARN, 'the plan diverges in every model'
        return message
    status.message = f'stage {stage}' if stage else 'of the plan'
    values = {**cost.terms, TOTAL: sum(cost.terms.values()), 'diverged_share': cost.diverged}
    status.values = [KeyValue(key=name, value=show(value)) for name, value in values.items()]
    return message

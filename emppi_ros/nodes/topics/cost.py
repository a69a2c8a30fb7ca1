"""
The topic `emppi/cost`: the cost of the plan, by term of the task's cost.

The terms depend on the task, and no other standard message has pairs of names and values.
"""

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from emppi_ros.nodes.common import convert
from emppi_ros.nodes.common.diagnostics import OK, WARN, show
from emppi_ros.planning.plan_preview import PlanCost

COST = 'emppi/cost'
NAME = 'emppi: cost'
TOTAL = 'total'


def write_cost(stamp: float, stage: str, cost: PlanCost | None) -> DiagnosticArray:
    """Return the message for the cost from the state at `stamp`; a cost of None: no plan."""
    status = DiagnosticStatus(level=OK, name=NAME)
    message = DiagnosticArray(status=[status])
    message.header.stamp = convert.to_stamp(stamp)
    if cost is None:
        status.level, status.message = WARN, 'no current plan'
        return message
    if cost.diverged == 1.0:
        status.level, status.message = WARN, 'the plan diverges in every model'
        return message
    status.message = f'stage {stage}' if stage else 'of the plan'
    values = {**cost.terms, TOTAL: sum(cost.terms.values()), 'diverged_share': cost.diverged}
    status.values = [KeyValue(key=name, value=show(value)) for name, value in values.items()]
    return message

"""The numbers of a summary as plain mappings, for JSON."""

from typing import Any

from emppi_ros.bench.paper.measures import Fall, Kind, Learning
from emppi_ros.bench.paper.summary import Summary
from emppi_ros.bench.statistics import Mean, Share


def as_json(summary: Summary) -> dict[str, Any]:
    """Return the summary in plain mappings."""

    def words(value: Share | Mean | Fall | Kind | Learning | float) -> Any:
        if isinstance(value, Share):
            return {**value._asdict(), 'rate': value.rate}
        if isinstance(value, Fall):
            return {**value._asdict(), 'fallen': words(value.fallen), 'ratio': value.ratio}
        if isinstance(value, Learning):
            return {**value._asdict(), 'fall': words(value.fall)}
        if isinstance(value, Kind):
            return {**value._asdict(), 'known': words(value.known)}
        return value._asdict() if isinstance(value, Mean) else value

    tables = ('success', 'attempts', 'time_s', 'regret_s', 'plan_ms', 'published')
    return {
        **{
            name: {
                task: {controller: words(value) for controller, value in found.items()}
                for task, found in getattr(summary, name).items()
            }
            for name in tables
        },
        'squared_error': {task: words(value) for task, value in summary.fall.items()},
        'calibration': {name: words(value) for name, value in summary.calibration.items()},
        'kind_of_joint': {task: words(value) for task, value in summary.kinds.items()},
        'in_steps': {task: words(value) for task, value in summary.in_steps.items()},
        'learning': {task: words(value) for task, value in summary.learning.items()},
        'ablation': [
            {'models': models, 'rollouts': rollouts, **words(value)}
            for (models, rollouts), value in summary.ablation.items()
        ],
        'risk': {
            task: {
                name: {**words(one.success), 'time_s': one.time_s} for name, one in found.items()
            }
            for task, found in summary.risk.items()
        },
    }

"""Report of a kinematic tree: tables in Markdown, pictures, and joint positions as signals."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
import numpy as np

from emppi_ros.articulation import mjcf
from emppi_ros.articulation.joint_models import DOF
from emppi_ros.articulation.topology import WORLD, KinematicTree, Pair, TreeJoint
from emppi_ros.recordings.signals import Signal
from emppi_ros.viz.palette import SERIES
from emppi_ros.viz.report import plots

REPORT, AXES, POSITIONS = 'report.md', 'axes.png', 'positions.png'
_KINDS = ('static', 'prismatic', 'revolute', 'screw')


def write(tree: KinematicTree, folder: Path) -> list[Path]:
    """Write report and pictures to a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / REPORT]
    pictures = {AXES: draw_axes}
    if any(mjcf.joint_names(joint) for joint in tree.joints):
        pictures[POSITIONS] = draw_positions
    written[0].write_text(to_text(tree, tuple(pictures)), encoding='utf-8')
    for name, draw in pictures.items():
        with plots.styled():
            draw(tree).savefig(folder / name, dpi=110)
        written.append(folder / name)
    return written


def to_text(tree: KinematicTree, pictures: Sequence[str] = ()) -> str:
    """Return the report in Markdown."""
    time = tree.tracks.time
    parts = [
        '# Articulation',
        f'{len(tree.tracks.parts)} parts, {len(time)} frames, {time[-1] - time[0]:.3g} s.',
        *(f'Note: {note}.' for note in tree.tracks.notes),
        *(f'![{Path(name).stem}]({name})' for name in pictures[:1]),
        '## Joints',
        _table(
            ('part', 'on', 'joint', 'axis', 'axis sd [deg]', 'pivot sd [mm]', 'range', 'residual',
             'explained'),
            [_joint_row(joint) for joint in tree.joints],
        ),
        'Axis: in the frame of the parent. Residual: root mean square in standard deviations of '
        'the tracks, in the frames that the joint explains; their share is the last column.',
        *(f'![{Path(name).stem}]({name})' for name in pictures[1:]),
        '## Alternatives',
        'Edges that could replace those of the tree, and by how much their log probability is '
        'lower. Parts that do not move relative to one another are equivalent parents.',
        _table(
            ('joint', 'instead', 'lower by'),
            [
                (f'{joint.parent} - {joint.child}', f'{parent} - {child}', f'{0.5 * worse:.0f}')
                for joint in tree.joints
                for parent, child, worse in joint.alternatives
            ],
        ),
        '## Pairs',
        'Residual of each type (from the median of squares, in standard deviations), and why a '
        'type is no candidate. Noise: factor on the standard deviations. Correlation: frames over '
        'which residuals are correlated.',
        _table(
            ('pair', 'type', *_KINDS, 'noise', 'correlation', 'explained', 'joined'),
            [_pair_row(pair) for pair in tree.pairs],
        ),
    ]  # fmt: skip
    return '\n\n'.join(parts) + '\n'


def signals(tree: KinematicTree) -> list[Signal]:
    """Return the joint positions as signals, without frames that the joint does not explain."""
    found = []
    for joint in tree.joints:
        for column, (name, unit) in enumerate(mjcf.joint_names(joint)):
            values = joint.q[:, column]
            here = np.isfinite(values)
            if here.any():
                time = tree.tracks.time[here]
                found.append(Signal('position', name, unit, time, values[here], name))
        if joint.candidates[0] == 'screw' and joint.model is not None:
            name, here = joint.child + mjcf.TRANSLATION, np.isfinite(joint.q[:, 0])
            along = float(joint.model.pitch) * joint.q[here, 0]
            found.append(Signal('position', name, 'm', tree.tracks.time[here], along, name))
    return found


def summary(tree: KinematicTree) -> dict[str, object]:
    """Return what to print: one entry a joint."""
    return {joint.child: _entry(joint) for joint in tree.joints}


def _entry(joint: TreeJoint) -> dict[str, object]:
    entry: dict[str, object] = {'on': joint.parent, 'joint': joint.kind}
    if joint.kind == 'undecided':
        entry['candidates'] = ' or '.join(joint.candidates)
    if DOF.get(joint.candidates[0]) == 1 and joint.model is not None:
        entry['axis'] = ' '.join(f'{value:.3f}' for value in joint.model.axis)
        entry['axis_sd_deg'] = float(np.degrees(joint.axis_sd_rad))
        entry['range'] = _range(joint)
    if joint.candidates[0] == 'screw' and joint.model is not None:
        entry['pitch_mm_per_rad'] = 1000.0 * float(joint.model.pitch)
    if np.isfinite(joint.residual):
        entry['residual'] = joint.residual
        entry['explained'] = joint.explained
    return entry


def _range(joint: TreeJoint) -> str:
    if joint.candidates[0] == 'prismatic':
        return f'{1000.0 * joint.travel:.0f} mm'
    return f'{np.degrees(joint.travel):.0f} deg'


def _joint_row(joint: TreeJoint) -> tuple[str, ...]:
    kind = joint.kind
    if kind == 'undecided':
        kind = f'undecided: {" or ".join(joint.candidates)}'
    if joint.candidates[0] == 'screw' and joint.model is not None:
        kind += f', {1000.0 * float(joint.model.pitch):.2f} mm/rad'
    axial = DOF.get(joint.candidates[0]) == 1 and joint.model is not None
    axis = ' '.join(f'{value:.3f}' for value in joint.model.axis) if axial and joint.model else '-'
    return (
        joint.child, joint.parent, kind, axis,
        _number(float(np.degrees(joint.axis_sd_rad)), '.2f'),
        _number(1000.0 * joint.pivot_sd_m, '.2f'),
        _range(joint) if axial else '-',
        _number(joint.residual, '.2f'),
        f'{100.0 * joint.explained:.0f} %',
    )  # fmt: skip


def _pair_row(pair: Pair) -> tuple[str, ...]:
    selection = pair.selection
    cells = []
    for kind in _KINDS:
        fit = selection.fits.get(kind)
        if fit is None:
            cells.append('-')
            continue
        text = f'{np.sqrt(fit.joint.scale):.3g}'
        cells.append(f'{text} ({fit.reason})' if fit.reason else text)
    kind = selection.kind
    if kind == 'undecided':
        kind = ' or '.join(selection.candidates)
    return (
        f'{pair.parent} - {pair.child}', kind, *cells, f'{np.sqrt(selection.scale):.2f}',
        f'{selection.correlation:.1f}', f'{100.0 * pair.explained:.0f} %',
        'yes' if np.isfinite(pair.cost) else 'no',
    )  # fmt: skip


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else '-'


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ['---'] * len(header), *rows]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def draw_axes(tree: KinematicTree) -> Figure:
    """Draw the tracks of all parts, and the axes of the joints in the first frame."""
    figure = Figure(figsize=(8.0, 7.0), layout='constrained')
    axes = figure.add_subplot(projection='3d')
    size = _draw_tracks(axes, tree)
    for index, joint in enumerate(tree.joints):
        if DOF.get(joint.candidates[0]) != 1 or joint.model is None:
            continue
        parent = tree.start[joint.parent]
        axis = parent.rotation @ joint.model.axis
        place = parent.rotation @ joint.model.frame.position + parent.position
        child = tree.start[joint.child].position
        middle = place + axis * float(axis @ (child - place))
        if joint.candidates[0] == 'prismatic':
            middle = child
        ends = np.stack([middle - 0.25 * size * axis, middle + 0.25 * size * axis])
        color = SERIES[index % len(SERIES)]
        axes.plot(*ends.T, color=color, lw=2.0, label=f'{joint.child}: {joint.kind}')
        axes.plot(*np.stack([middle, child]).T, color=color, lw=0.8, ls=':')
    axes.set(xlabel='x [m]', ylabel='y [m]', zlabel='z [m]')
    axes.set_title('Tracks (points) and axes (lines) in the first frame')
    axes.legend(loc='upper left', fontsize=9)
    axes.set_aspect('equal')
    return figure


def _draw_tracks(axes: Axes, tree: KinematicTree) -> float:
    """Draw positions without outliers; return the size of what was drawn [m]."""
    by_name = {one.name: one for one in tree.tracks.parts}
    drawn = []
    for index, joint in enumerate(tree.joints):
        part = by_name[joint.child]
        points = part.poses.position[part.seen]
        centre = np.median(points, axis=0)
        apart = np.linalg.norm(points - centre, axis=1)
        points = points[apart <= 3.0 * np.quantile(apart, 0.8) + 1e-6]
        drawn.append(points)
        jointed = DOF.get(joint.candidates[0]) == 1
        label = None if jointed else f'{joint.child}: {joint.kind}'
        color = SERIES[index % len(SERIES)]
        axes.plot(*points.T, '.', color=color, ms=3, alpha=0.5, label=label)
    return float(max(np.ptp(np.concatenate(drawn), axis=0).max(), 0.1))


def draw_positions(tree: KinematicTree) -> Figure:
    """Draw the joint positions over time."""
    shown = [(joint, mjcf.joint_names(joint)) for joint in tree.joints if mjcf.joint_names(joint)]
    figure = Figure(figsize=(8.0, 1.9 * len(shown) + 0.6), layout='constrained')
    rows = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    order = [joint.child for joint in tree.joints]
    for axis, (joint, names) in zip(rows, shown, strict=True):
        color = SERIES[order.index(joint.child) % len(SERIES)]
        for column, (name, unit) in enumerate(names):
            style = {'color': color, 'ms': 3, 'alpha': 1.0 - 0.3 * column}
            axis.plot(tree.tracks.time, joint.q[:, column], '.', label=f'{name} [{unit}]', **style)
        on = '' if joint.parent == WORLD else f' on {joint.parent}'
        axis.set_title(f'{joint.child}{on}: {joint.kind}')
        axis.set_ylabel(names[0][1] if len(names) == 1 else 'm, rad')
        if len(names) > 1:
            axis.legend(fontsize=9)
    rows[-1].set_xlabel('time [s]')
    return figure

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

_KINDS = ('static', 'prismatic', 'revolute', 'screw')


def write(tree: KinematicTree, folder: Path) -> list[Path]:
    """Write report and pictures to a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {'axes.png': draw_axes}
    if any(mjcf.joint_names(joint) for joint in tree.joints):
        pictures['positions.png'] = draw_positions
    report = folder / 'report.md'
    report.write_text(to_text(tree, tuple(pictures)), encoding='utf-8')
    for name, draw in pictures.items():
        with plots.styled():
            draw(tree).savefig(folder / name, dpi=110)
    return [report, *(folder / name for name in pictures)]


def to_text(tree: KinematicTree, pictures: Sequence[str] = ()) -> str:
    """Return the report in Markdown."""
    time = tree.tracks.time
    parts = [
        '# Articulation',
        f'{len(tree.tracks.parts)} parts, {len(time)} frames, {time[-1] - time[0]:.3g} s.',
        *(f'Note: {note}.' for note in (*tree.tracks.notes, *tree.warnings)),
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
        columns = [
            (name, unit, joint.q[:, i]) for i, (name, unit) in enumerate(mjcf.joint_names(joint))
        ]
        if joint.candidates[0] == 'screw' and joint.model is not None:
            along = float(joint.model.pitch) * joint.q[:, 0]
            columns.append((joint.child + mjcf.TRANSLATION, 'm', along))
        for name, unit, values in columns:
            here = np.isfinite(values)
            if here.any():
                time = tree.tracks.time[here]
                found.append(Signal('position', name, unit, time, values[here], name))
    return found


def summary(tree: KinematicTree) -> dict[str, object]:
    """Return what to print: one entry a joint."""
    return {joint.child: _entry(joint) for joint in tree.joints}


def _entry(joint: TreeJoint) -> dict[str, object]:
    entry: dict[str, object] = {'on': joint.parent, 'joint': joint.kind}
    if joint.kind == 'undecided':
        entry['candidates'] = ' or '.join(joint.candidates)
    if axis := _axis(joint):
        entry['axis'] = axis
        entry['axis_sd_deg'] = float(np.degrees(joint.axis_sd_rad))
        entry['range'] = _range(joint)
    if joint.candidates[0] == 'screw' and joint.model is not None:
        entry['pitch_mm_per_rad'] = 1000.0 * float(joint.model.pitch)
    if np.isfinite(joint.residual):
        entry['residual'] = joint.residual
        entry['explained'] = joint.explained
    return entry


def _axis(joint: TreeJoint) -> str:
    """Return the axis of a hinge, slide or screw; '' of others."""
    if DOF.get(joint.candidates[0]) != 1 or joint.model is None:
        return ''
    return ' '.join(f'{value:.3f}' for value in joint.model.axis)


def _range(joint: TreeJoint) -> str:
    if joint.candidates[0] == 'prismatic':
        return f'{1000.0 * joint.travel:.0f} mm'
    return f'{np.degrees(joint.travel):.0f} deg'


def _joint_row(joint: TreeJoint) -> tuple[str, ...]:
    kind, axis = joint.description, _axis(joint)
    if joint.candidates[0] == 'screw' and joint.model is not None:
        kind += f', {1000.0 * float(joint.model.pitch):.2f} mm/rad'
    return (
        joint.child, joint.parent, kind, axis or '-', _number(np.degrees(joint.axis_sd_rad)),
        _number(1000.0 * joint.pivot_sd_m), _range(joint) if axis else '-',
        _number(joint.residual), f'{100.0 * joint.explained:.0f} %',
    )  # fmt: skip


def _pair_row(pair: Pair) -> tuple[str, ...]:
    selection = pair.selection
    cells = ['-'] * len(_KINDS)
    for column, kind in enumerate(_KINDS):
        if fit := selection.fits.get(kind):
            reason = f' ({fit.reason})' if fit.reason else ''
            cells[column] = f'{np.sqrt(fit.joint.scale):.3g}{reason}'
    return (
        f'{pair.parent} - {pair.child}', ' or '.join(selection.candidates), *cells,
        f'{np.sqrt(selection.scale):.2f}', f'{selection.correlation:.1f}',
        f'{100.0 * pair.explained:.0f} %', 'yes' if np.isfinite(pair.cost) else 'no',
    )  # fmt: skip


def _number(value: float) -> str:
    return f'{value:.2f}' if np.isfinite(value) else '-'


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ['---'] * len(header), *rows]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def draw_axes(tree: KinematicTree) -> Figure:
    """Draw the tracks of all parts, and the axes of the joints in the first frame."""
    figure = Figure(figsize=(8.0, 7.0), layout='constrained')
    axes = figure.add_subplot(projection='3d')
    size = 0.25 * _draw_tracks(axes, tree)
    for index, joint in enumerate(tree.joints):
        if joint.model is None or not _axis(joint):
            continue
        frame, child = tree.start[joint.parent] @ joint.model.frame, tree.start[joint.child]
        axis = frame.rotation[:, 2]
        middle = frame.position + axis * float(axis @ (child.position - frame.position))
        if joint.candidates[0] == 'prismatic':
            middle = child.position
        style = {'color': SERIES[index % len(SERIES)]}
        ends = np.stack([middle - size * axis, middle + size * axis])
        axes.plot(*ends.T, lw=2.0, label=f'{joint.child}: {joint.kind}', **style)
        axes.plot(*np.stack([middle, child.position]).T, lw=0.8, ls=':', **style)
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
        distance = np.linalg.norm(points - np.median(points, axis=0), axis=1)
        points = points[distance <= 3.0 * np.quantile(distance, 0.8) + 1e-6]
        drawn.append(points)
        label = None if _axis(joint) else f'{joint.child}: {joint.kind}'
        color = SERIES[index % len(SERIES)]
        axes.plot(*points.T, '.', color=color, ms=3, alpha=0.5, label=label)
    return float(max(np.ptp(np.concatenate(drawn), axis=0).max(), 0.1))


def draw_positions(tree: KinematicTree) -> Figure:
    """Draw the joint positions over time."""
    shown = [
        (joint, names, SERIES[index % len(SERIES)])
        for index, joint in enumerate(tree.joints)
        if (names := mjcf.joint_names(joint))
    ]
    figure = Figure(figsize=(8.0, 1.9 * len(shown) + 0.6), layout='constrained')
    rows = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (joint, names, color) in zip(rows, shown, strict=True):
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

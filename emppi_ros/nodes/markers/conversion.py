"""
Messages for displays: shapes as a MarkerArray for rviz and Foxglove, and the cost of the plan.

A shape is one marker: its namespace is the shape's name, its id counts shapes of the same name.
An empty shape deletes its marker: rviz reports markers without points or text as errors. The
terms of the cost depend on the task; of the standard messages, only a DiagnosticArray has pairs of
names and values.
"""

from collections import Counter

from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import Point, Vector3
import numpy as np
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from emppi_ros.nodes.common import convert
from emppi_ros.nodes.common.diagnostics import OK, WARN, show
from emppi_ros.planning.plan_preview import PlanCost
from emppi_ros.viz.shapes.shapes import Label, Lines, Shape, Shapes, Spheres, Triangles

# of rviz's lines to `Label.height`: their capitals are about 0.6 of a line, and this is what fits
_TALLER = 1.25  # on the sheets
_SPACE = 0.6  # width of a space, of the height of a letter
COST = 'emppi/cost'
NAME = 'emppi: cost'
TOTAL = 'total'


def write_shapes(
    shapes: Shapes, frame: str, stamp: Time, lifetime: Duration | None = None
) -> MarkerArray:
    """Return the markers of shapes in a frame; displays remove them after their lifetime."""
    counter: Counter[str] = Counter()
    message = MarkerArray()
    for shape in shapes:
        marker = _write(shape)
        marker.header.frame_id, marker.header.stamp = frame, stamp
        marker.lifetime = Duration() if lifetime is None else lifetime  # 0: for ever
        marker.ns, marker.id = shape.name, counter[shape.name]
        counter[shape.name] += 1
        message.markers.append(marker)
    return message


def _write(shape: Shape) -> Marker:
    marker = Marker(action=Marker.ADD)
    marker.pose.orientation.w = 1.0
    if isinstance(shape, Label):
        marker.type, marker.text = Marker.TEXT_VIEW_FACING, shape.text
        marker.action = Marker.ADD if shape.text else Marker.DELETE
        marker.pose.position = _point(shape.position.tolist())
        # rviz's lines are `z` high, and its spaces `x` wide; by default as wide as for 1 m
        marker.scale.z, marker.scale.x = _TALLER * shape.height, _SPACE * shape.height
        marker.color = _color([*shape.color, 1.0])
        return marker
    if isinstance(shape, Lines):
        marker.type, corners = Marker.LINE_LIST, shape.ends
        marker.scale.x = float(shape.width)  # line width; rviz ignores the others
    elif isinstance(shape, Triangles):
        marker.type, corners = Marker.TRIANGLE_LIST, shape.corners
        marker.scale = Vector3(x=1.0, y=1.0, z=1.0)
    elif isinstance(shape, Spheres):
        marker.type, corners = Marker.SPHERE_LIST, shape.centres[:, None]
        marker.scale = Vector3(x=shape.diameter, y=shape.diameter, z=shape.diameter)
    if len(corners) == 0:
        marker.action = Marker.DELETE
    marker.color.a = 1.0  # rviz warns of 0, although each corner has its own colour
    # rviz blends either all lines of a list or none, depending on the opacity of the last one
    order = np.argsort(-shape.colors[:, 3], kind='stable')
    marker.points = [_point(row) for row in corners[order].reshape(-1, 3).tolist()]
    for row in shape.colors[order].tolist():
        marker.colors += [_color(row)] * corners.shape[1]
    return marker


def _point(row: list[float]) -> Point:
    return Point(x=row[0], y=row[1], z=row[2])


def _color(row: list[float]) -> ColorRGBA:
    return ColorRGBA(r=float(row[0]), g=float(row[1]), b=float(row[2]), a=float(row[3]))


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

"""
Conversion of shapes to a MarkerArray, which rviz and Foxglove display without a plugin.

A shape is one marker: its namespace is the shape's name, its id counts shapes of the same name.
An empty shape deletes its marker: rviz reports markers without points or text as errors.
"""

from collections import Counter

from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Point, Vector3
import numpy as np
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from emppi_ros.viz.shapes.shapes import Label, Lines, Shape, Shapes, Spheres, Triangles

_SPACE = 0.6  # width of a space, of the height of a letter


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
        # rviz's letters are `z` high, and its spaces `x` wide; by default as wide as for 1 m
        marker.scale.z, marker.scale.x = float(shape.height), _SPACE * float(shape.height)
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

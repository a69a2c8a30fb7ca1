"""Remarks on the results of data sets, in Markdown."""

_DRIVEN_PENDULUM = """\
Energy shaping applies a torque in the direction of the velocity, nearly constant in size: dry
friction acts along the same line, and cannot be told from the scale of inertia and weight during
the swing up. Therefore `rigid-body`, which explains torques, finds a negative friction; the others
keep it within its bounds. In the held-out part of both recordings the pendulum leaves the upright
position faster than the recorded torque and its weight explain, as if it were pushed: the root
mean square of the errors is far above their median, for all methods. The authors' parameters are
not in the files.
"""
_CUBE = """\
Each half of the tosses is learned from, and the other half forecast. `rollouts` simulates whole
tosses from their first recorded states; a toss counts as one observation. The methods of `emppi
identify` do not fit: most need joints, or forces that motion does not show in contact. `filter`,
which follows tracked objects through contact, needs a task with a robot, and starts each toss at
rest: the friction that it finds depends on its `object_gain`, with which it catches up.

Errors are those of one simulation with the mean of the parameters, as the authors define them in
their code (`contactnets/train/trajectory.py`): the distance of the centres and the angle between
the orientations, averaged over the rows of a toss, and the depth of the lowest corner below z = 0.
Their Figure 5 plots these averages; its values could not be verified, and are not quoted.
`published` has the friction, restitution and inertia of their `experiment.json`, with the stiffest
contact that the physics steps permit. The bands contain the uncertainty of the parameters, and
errors as large as those of the tosses that were learned from. A rebound is the upward speed of the
corner that touches first, 20 to 27 ms after it comes within 5 mm of the table, over its downward
speed before; other corners may touch in between.

What explains whole tosses best is a contact that hardly bounces, with a rebound that is smaller
than recorded: one damping ratio does not fit both.

What MuJoCo's contact cannot express:

- Restitution that depends on speed: `solref` gives a contact one damping ratio. The table has the
  change of the rebound with speed.
- An impact: a contact lasts for about its time constant, which is at least two physics steps.
- Edges or corners with a friction of their own: a geom has one coefficient. The cone of the model
  is elliptic; in the default, pyramidal one, friction depends on the direction.
- Corners that do not sink in. The recorded ones do, too, because real corners are round and poses
  have errors. Therefore the estimated height of the table is not only its own.
"""
NOTES = {'driven-pendulum': _DRIVEN_PENDULUM, 'cube': _CUBE}

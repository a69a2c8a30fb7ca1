"""Remarks on the results of data sets, in Markdown."""

_FREE_PENDULUM = """\
In all ten recordings `csvgd` finds that the model explains windows of 0.125 s, and that longer or
continuous ones leave 2.6 to 4.3 times as large errors. Windows therefore stay independent, and
particles begin near the estimate. The noise is the errors in the windows times 3.7 to 6.1, because
they are correlated. With it ten lengths agree within their intervals without any further factor;
the intervals of `sysid` and `states` contain `--spread` 3, those of `shooting` `--widen` 2. With
particles all over the limits and continuous windows, the median log likelihood on recording 0 was
still -5e9 after 70 of 100 iterations. The computing time of `csvgd` is that of two runs at a time,
while other work had most of the processor; about 80 s of processor time went into each.

All methods miss by about the same, because they share the model, whose steps of 2.5 ms are a part
of the error: see the calibrated pendulum. With random torques the 90 % bands of `shooting`,
`states` and `sysid` hold 90 % of the measurements of the shoulder and 93 to 96 % of those of the
elbow (means over the recordings), and without them 22 to 39 and 22 to 62 %.
"""
_CALIBRATED_PENDULUM = """\
With calibrated markers, centres of mass beside the links, dry friction of the elbow and a
fourth-order integrator (RK4), `shooting` forecasts half a second two to three times as well as
without (medians over the recordings: 0.008 and 0.020 rad instead of 0.024 and 0.040), and its
lengths differ by half as much. With two steps of `implicitfast` per frame in place of RK4 it
missed by 0.010 and 0.022 rad. The model explains windows of 0.24 s in eight recordings, and of
0.12 s in the others. The mean length is the published one if the camera took about 500 frames per
second instead of 400. Other work had most of the processor during these runs: of the computing
time, about 33 s each are processor time.

The offsets of the markers, up to 2.5 pixels, are the same in all runs. They change angles by up to
0.004 rad, five times the noise of a marker.

Forecasts stay far from the noise of the markers (0.0008 rad of the shoulder, 0.0015 rad of the
elbow). A perfect model with this noise would miss by 0.0011 and 0.0020 rad (medians), since starts
are fitted to 0.1 s. What else was tried, and what the model lacks:

- **Parameters are hardly the limit.** With the mean of the parameters from the nine other
  recordings, a recording is forecast nearly as well as with its own (0.0085 and 0.024 rad, instead
  of 0.0085 and 0.018).
- **Random torques explain the errors.** Between windows of 0.1 s velocities differ as if torques
  of 0.0005 N m (shoulder) and 0.00017 N m (elbow; 2 % of the weight of the lower link) acted, with
  another value in each window (correlation of successive ones -0.10 and 0.14). A pendulum that is
  known exactly, with such torques, would miss by 0.007 and 0.025 rad, which is what forecasts do.
  With these torques in the forecasts, their 90 % bands hold 89 and 88 % of the measurements, and
  56 and 55 % without (means over the recordings).
- **They hardly depend on the state.** Linear regression of 510 of these torques, judged on
  recordings that it was not fitted to, explains 24 % (shoulder) and 30 % (elbow) of their mean
  square with 21 terms at once: weights, viscous and dry friction, friction by load, drag, inertia
  and second harmonics of the angles. No group alone explains more than 15 and 19 %.
- Starts that are fitted to 0.25 s in place of 0.1 s are worse: 0.010 and 0.028 rad.

Of the learned parts of some recordings, with equations of motion in continuous time and starts
that were free in every window:

- A camera or plumb line that is tilted, or a centre of mass beside a link, by about 0.01 rad: with
  both, errors of the lower link in windows of 0.5 s fall from 0.0102 to 0.0035 rad (recording 0)
  and from 0.0069 to 0.0047 rad (recording 5).
- Friction of the elbow that grows with its load, or drag of the lower link: in windows of 0.25 s
  errors of the lower link fall by 6 to 18 % with either. MuJoCo's joints have no such friction.
  Dry friction that is constant explains little in addition.
- The pivot moves sideways by up to two pixels. Its acceleration acts on the links (estimated
  factors are between 0.4 and 1 with friction by load), but explains only a few percent of the
  errors. Its vertical vibration at 9 Hz does not act on them: the camera shakes.
- Lengths between markers vary by 0.5 pixels with the configuration: perspective, and an axis of
  the elbow that is not parallel to that of the shoulder, explain most of it, but hardly change the
  forecasts.
"""
_DRIVEN_PENDULUM = """\
Energy shaping applies a torque in the direction of the velocity, nearly constant in size: dry
friction acts along the same line, and cannot be told from the scale of inertia and weight during
the swing up. Therefore `rigid-body`, which explains torques, finds a negative friction; the others
keep it within its bounds. In the held-out part of both recordings the pendulum leaves the upright
position faster than the recorded torque and its weight explain, as if it were pushed: the root
mean square of the errors is far above their median, for all methods. The authors' parameters are
not in the files.
"""
_ARM = """\
No published moment is in the 90 % interval of `shooting`, whose estimates are 19 to 32 % larger;
if they were 1.25 times as large, all four would be. Moments and frictions have the unit of the
torques, so that torques that were recorded a quarter too large would explain it, which the
recording cannot show. With the published parameters forecasts miss by ten times (shoulder) and
four times (elbow) as much as with those of `shooting`.
"""
_LONG_ARM = """\
Three of the four published moments are in the 90 % intervals of `shooting`. The first moment of
the upper link is not: the estimate is 11 % smaller. With the published parameters forecasts miss
by 1.4 times (shoulder) and 1.9 times (elbow) as much as with those of `shooting`.
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
NOTES = {
    'free-pendulum': _FREE_PENDULUM,
    'calibrated-pendulum': _CALIBRATED_PENDULUM,
    'driven-pendulum': _DRIVEN_PENDULUM,
    'arm': _ARM,
    'long-arm': _LONG_ARM,
    'cube': _CUBE,
}

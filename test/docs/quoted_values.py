"""Compute from published rows the numbers that sentences of other pages quote."""

from collections import defaultdict
from math import ceil

import numpy as np
from published import ends, median_s, rate, rows, runs, said, success, task

from benchmarks import means

CHEETAH, PUSH = 'halfcheetah_backflip', 'panda_push'
PICKUP = {'folder': 'results_belief', 'task': 'fr3_pickup', 'world': 'jump'}
JUMP = {'folder': 'results_belief', 'task': 'fr3_follow', 'world': 'jump', 'estimator': 'emppi'}
FILMS = 'cartpole', 'rott', 'craftsman'


# First runs of the tasks


def flip_steps(controller='emppi'):
    """Return the control steps until the cheetah has flipped; all runs succeed."""
    return [1e3 * row['time_s'] / row['period_ms'] for row in runs(CHEETAH, controller)]


def by_table_i(name):
    """Return successes with the paper's hyper-parameters, those of the oracle, and the runs."""
    found = rows('results', reported=False, study='published', task=name)
    of = [[row for row in found if row['controller'] == c] for c in ('emppi', 'mppi-true')]
    return [*map(success, of), len(of[0])]


def flips(limit, controller='emppi'):
    """Return how many runs flip within a number of control steps."""
    return sum(n < limit + 0.5 for n in flip_steps(controller))


def successes(controller, *tasks):
    return [rate(runs(name, controller))[0] for name in tasks]


def rms_error(name):
    found = [row['parameters'][name] for row in runs(PUSH)]
    return np.sqrt(np.mean([(one['mean'] - one['true']) ** 2 for one in found]))


def prior_sd(name):
    return task(PUSH)['parameters'][name]['prior']['sd']


def drawn(name):
    truth = task(PUSH)['simulation']['truth'][name]
    return [truth['lower'], truth['upper']]


def size(name):
    return [task(name)['planner'][key] for key in ('models', 'rollouts', 'horizon')]


def error_left(name):
    end = np.median([row['squared_error'] for row in runs(name)])
    return 100.0 * end / np.median([row['course']['squared_error'][0] for row in runs(name)])


def attempts(name):
    reached = [attempt['reached'] for row in runs(name) for attempt in row['attempts']]
    return [sum(reached), len(reached)]


def kinds_known(name):
    shares = [row['right_kind'] for row in runs(name) if row['right_kind'] is not None]
    return [sum(share > 0.95 for share in shares), len(shares)]


def always_inside():
    """Return the number of runs without control in which each interval held the truth."""
    found = [row['parameters'].values() for row in rows('results', study='calibration')]
    return sum(all(one['low'] <= one['true'] <= one['high'] for one in of) for of in found)


def grid():
    """Return the runs of the push with known true values, by mass and friction."""
    points = defaultdict(list)
    for row in rows('results_robustness', sweep='parameters', controller='mppi-true'):
        points[tuple(row['values'])].append(row)
    return points


def known_truth():
    """Return the successes over the grid, its ends, and the fewest successes at a point."""
    points = grid()
    bounds = [end for axis in zip(*points, strict=True) for end in ends(axis)]
    return [*rate(sum(points.values(), [])), *bounds, *min(map(rate, points.values()))]


def lost_and_heaviest():
    """Return the friction of blocks that are lost, and the times of the heaviest and roughest."""
    points = grid()
    lost = {friction for (_, friction), of in points.items() if len(set(rate(of))) > 1}
    return [*lost, *ends([row['time_s'] for row in points[max(points)]])]


# Other benchmarks


def busy(name, load, sweep='load'):
    return rate(rows('results_load', task=name, sweep=sweep, values=[load]))


def recovery():
    """Return how the belief follows a mass that is picked up: mass, median time, runs in 2 s."""
    found = rows(**JUMP)
    one = found[0]['series']['payload_mass']['true']
    times = [row['scores']['payload_mass']['recovered_s'] for row in found]
    return [one[-1] - one[0], np.median(times), sum(time <= 2.0 for time in times), len(times)]


def picked_up(estimator):
    return rate(rows(**PICKUP, estimator=estimator))


def pickup_s():
    return median_s(rows(**PICKUP, estimator='emppi'))


def peers(world, begin):
    """Return the successes on Judo's cylinder, of planners with such names: ends, and runs."""
    found = defaultdict(list)
    for row in rows('results_peers', task='cylinder_push', world=world):
        if row['planner'].startswith(begin):
            found[row['planner']].append(row)
    return [*ends([rate(of)[0] for of in found.values()]), *{len(of) for of in found.values()}]


def ends_better():
    """Return how many of Judo's planners have more reward at the end of the push, for sure."""
    last = defaultdict(dict)
    for row in rows('results_peers', task='cylinder_push', world='true'):
        last[row['planner']][row['seed']] = row['final_reward']
    own = last['emppi']
    less = [
        means.mean([own[seed] - other for seed, other in of.items()])
        for planner, of in last.items()
        if planner.startswith('judo')
    ]
    return sum(one.high < 0.0 for one in less)


def heavier():
    """Return how many times as heavy as in its model the cylinder of the wrong world is."""
    first = {
        world: rows('results_peers', task='cylinder_push', world=world, planner='emppi')[0]
        for world in ('true', 'wrong')
    }
    true, wrong = (first[world]['parameters']['cart_mass']['true'] for world in first)
    return wrong / true


def mechanisms():
    real = [row for row in rows('results_articulate', mechanism='real') if row['expected']]
    return [sum(row['right'] for row in real), len(real)]


def tracked(tracker, name, videos=('cartpole', 'block', 'cabinet')):
    """Return the mean over videos of an error of each part."""
    errors = defaultdict(list)
    for row in rows('results_track', tracker=tracker):
        for part, one in row['parts'].items():
            errors[row['video'], part].append(one[name])
    return [np.mean(of) for (video, _), of in errors.items() if video in videos]


def image_ms(tracker):
    times = defaultdict(list)
    for row in rows('results_track', tracker=tracker):
        times[row['video']].append(row['ms_p50'])
    return {video: np.mean(of) for video, of in times.items()}


def smoothing_ms():
    """Return how much longer an image takes with the smoother, for each part of it."""
    more = image_ms('rendering-smoothed')
    return [(more[v] - ms) / (1 if v == 'block' else 2) for v, ms in image_ms('rendering').items()]


def absolute(tracker, video='block', seeds=None):
    """Return the mean absolute error of poses."""
    found = rows('results_track', tracker=tracker, video=video)
    errors = [row['parts'].values() for row in found if seeds is None or row['seed'] in seeds]
    return np.mean([one['mean_absolute'] for of in errors for one in of])


def below_icp(tracker, video):
    """Return how much less the error is than that of ICP on the same videos."""
    same = {row['seed'] for row in rows('results_track', tracker='icp', video=video)}
    return absolute('icp', video) / absolute(tracker, video, same)


def films(method, *names):
    return [row for row in rows('results_video', method=method) if row['mechanism'] in names]


def film_errors(method):
    """Return the mean relative error of the parameters of each mechanism [%]."""
    return [
        np.mean([100.0 * abs(one['value'] / one['truth'] - 1.0)
                 for row in films(method, name) for one in row['parameters'].values()])
        for name in FILMS
    ]  # fmt: skip


def film_intervals(method):
    found = [one for row in films(method, *FILMS) for one in row['parameters'].values()]
    return [sum(one['low'] <= one['truth'] <= one['high'] for one in found), len(found)]


def film_trees():
    found = {(row['mechanism'], row['seed']): row['axis_deg'] for row in rows('results_video')}
    return [sum(error is not None for error in found.values()), len(found)]


def reward_less(kind):
    """Return reward less that with true parameters, paired by film and trial: mean, interval."""
    less = [
        a - b
        for row in films('shooting', 'cartpole')
        if row['rewards']
        for a, b in zip(row['rewards'][kind], row['rewards_with_truth'][kind], strict=True)
    ]
    return list(means.mean(less)[:3])


def payload():
    """Return the mass of a payload, and the larger of errors and standard deviations [g]."""
    row = '| mass [kg] | {} | {} +- {} | {} +- {} |'
    true, first, sd, second, other_sd = said('docs/results_identification.md', row)
    return [true, ceil(1e3 * max(abs(first - true), sd, abs(second - true), other_sd))]


def length_sd():
    found = rows('results_real', dataset='free-pendulum', method='shooting')
    lengths = [row['quantities']['length']['value'] for row in found]
    return [len(lengths), 100.0 * np.std(lengths, ddof=1) / np.mean(lengths)]


def cube(half):
    (row,) = rows('results_real', dataset='cube', recording=half, method='rollouts')
    one = row['quantities']['friction']
    return [one['value'], one['low'], one['high'], one['published']]


def toss_error(half, method='rollouts'):
    (row,) = rows('results_real', dataset='cube', recording=half, method=method)
    one = row['scores']['position error']
    return [one['value'], one['low'], one['high']]

"""
Numbers that pages quote from results are those of the published rows.

`QUOTES` has sentences, in which {} stands for a number (or `none`, `one`, ... `ten`), and a
function that returns these numbers, in their order. Results without rows are `said` by the page
that reports how they were measured. `GIVEN` has the numbers that are no results of rows, and why.
"""

import re

import numpy as np
from published import NUMBER, ends, median_s, number, places, rate, rows, runs, said, task, text
import pytest
import quoted_values as of

from benchmarks.paper.summary import STEPS
from emppi_ros.identification import methods

README, HIGHLIGHTS = 'README.md', 'docs/highlights.md'
SPEED, CLAIMS = 'docs/performance.md', 'docs/claims.md'
TASKS, TRACKING, CHANGES = 'docs/tasks.md', 'docs/tracking.md', 'CHANGELOG.rst'
CHEETAH, PUSH, TIP, CARTPOLE = (
    'halfcheetah_backflip', 'panda_push', 'panda_reconfigure', 'cartpole_swingup',
)  # fmt: skip
BOXES = 'panda_drawer', 'panda_cabinet'
SOON = STEPS[CHEETAH]  # control steps, by the paper
FIRST, SMOOTHED, SECOND = 'rendering', 'rendering-smoothed', 'rendering-joints'
LIVE = (
    '`emppi demo panda_push --tracking depth` succeeded in {} of {} runs ({} to {} %; seeds 40 to '
    '59), after {} s at the median and {} s at most'
)
STOP = 'onset at most 110 ms after the start of the last valid plan; zero at most {} ms after it'


def said_of_live_pushes():
    """Return the runs in both paragraphs on pushes without tags over ROS."""
    counts = np.array([said(TRACKING, LIVE)[:2], said(TRACKING, '{} of {} runs succeeded with')])
    return counts.sum(axis=0)


QUOTES = {
    README: {
        'does a backflip in {} of {} runs; without belief updates in {}.':
            lambda: [*rate(runs(CHEETAH)), *of.successes('no-update', CHEETAH)],
        'picks up {} kg: the belief\'s 90 % interval holds the new mass after {} s (median), '
        'within 2 s in {} of {} runs.': lambda: of.recovery()[:4],
        '{} faults injected': lambda: said('docs/reliability.md', 'Faults judged: {}.'),
        'caused {} violation of': lambda: said('docs/reliability.md', 'Violations: {}.'),
        'at rest within {} ms of': lambda: said('docs/reliability.md', STOP),
        'give their joints in {} of {} films; {} of {} true values':
            lambda: [*of.film_trees(), *of.film_intervals('shooting')],
        'All {} plans and {} beliefs': lambda: said(
            'docs/record.md', '| `panda_push` | {} of {} | {} of {} |')[::2],
        'Films of {} kinds': lambda: [len({row['mechanism'] for row in rows('results_video')})],
    },
    HIGHLIGHTS: {
        'does a backflip in {} of {} runs; without belief updates in {}.':
            lambda: [*rate(runs(CHEETAH)), *of.successes('no-update', CHEETAH)],
        'in {} and {} of {} runs (over ROS, in real time, in {} and {} of {})':
            lambda: [of.successes('emppi', BOXES[0])[0], *rate(runs(BOXES[1])),
                     of.busy(BOXES[0], 0.0)[0], *of.busy(BOXES[1], 0.0)],
        'without updates in {} and {}. [{} runs test':
            lambda: [*of.successes('no-update', *BOXES), len(rows('results'))],
        'picks up {} kg: the belief\'s 90 % interval holds the new mass after {} s (median), '
        'within 2 s in {} of {} runs.': of.recovery,
        'to a shelf succeeds in {} of {} runs, as with the true weight; with the prior\'s mean '
        'in {}, with a belief that expects constant parameters in {}.':
            lambda: [*of.picked_up('emppi'), *of.picked_up('prior-mean')[:1],
                     *of.picked_up('frozen')[:1]],
        'beside four busy processes per core in {} of {} runs': lambda: of.busy(PUSH, 4.0),
        'cylinder, {} times as heavy as in its model, is pushed to its goal in {} of {} runs':
            lambda: [of.heavier(), *of.peers('wrong', 'emppi')[1:]],
        'in {} to {} of {} by Judo\'s optimizers, in {} of {} by pytorch-mppi.':
            lambda: [*of.peers('wrong', 'judo'), *of.peers('wrong', 'pytorch-mppi')[1:]],
        '{} of Judo\'s come to rest': lambda: [of.ends_better()],
        'simulates {} models x {} rollouts x {} steps with contact at {} Hz':
            lambda: [*of.size(PUSH), task(PUSH)['planner']['rate_hz']],
        'A plan takes {} to {} ms,': lambda: said(SPEED, 'missed deadline, {} to {} ms per plan'),
        'ms, {} to {} times as long': lambda: said(SPEED, 'several such machines | {} to {} |'),
        '{} faults injected': lambda: said('docs/reliability.md', 'Faults judged: {}.'),
        'caused {} violation of': lambda: said('docs/reliability.md', 'Violations: {}.'),
        'at rest within {} ms of': lambda: said('docs/reliability.md', STOP),
        'All {} plans and {} beliefs': lambda: said(
            'docs/record.md', '| `panda_push` | {} of {} | {} of {} |')[::2],
        'recorded for {} s': lambda: said('docs/record.md', 'each recorded for {} s'),
        '{} of {} published tracks': of.mechanisms,
        'centres are known to {} to {} mm (95 % of images)':
            lambda: ends(of.tracked(FIRST, 'centre_p95_mm')),
        'in {} to {} ms of one core;': lambda: ends(of.image_ms(FIRST).values()),
        '(`--smooth`), to {} to {} mm': lambda: ends(of.tracked(SMOOTHED, 'centre_p95_mm')),
        'reduces this to {} to {} mm': lambda: ends(of.tracked(SECOND, 'centre_p95_mm')),
        'mm, in {} of {} videos': lambda: [len(rows('results_track', tracker=SECOND))] * 2,
        'pushes the block in {} of {} runs': said_of_live_pushes,
        'opens drawer and cabinet in {} of {} each':
            lambda: said(TRACKING, '--tracking depth` succeeded in {} of {} runs, and so did'),
        'give their joints in {} of {} films': of.film_trees,
        'parameters to {}, {} and {} % in the mean': lambda: of.film_errors('shooting'),
        '{} of {} true values are in': lambda: of.film_intervals('shooting'),
        'is off by {}, {} and {} %, with {} of {} in its intervals':
            lambda: [*of.film_errors('sysid'), *of.film_intervals('sysid')],
        '(rewards differ by {}, {} to {}, and {}, {} to {})':
            lambda: [*of.reward_less('swing-up'), *of.reward_less('balancing')],
        'with {} methods behind one command': lambda: [len(methods.METHODS)],
        'A payload of {} kg on a simulated FR3 is identified to {} g': of.payload,
        '{} recordings of a real double pendulum': lambda: of.length_sd()[:1],
        'give its length to {} % (sd)': lambda: of.length_sd()[1:],
        'friction of {} ({} to {}), the other half {} ({} to {}; its authors use {})':
            lambda: [*of.cube('half 1')[:3], *of.cube('half 2')],
        'forecast the tosses of the other half to {} % ({} to {} %) of its width; its authors\' '
        'values to {} and {} %': lambda: [*of.toss_error('half 1'), of.toss_error(
            'half 1', 'published')[0], of.toss_error('half 2', 'published')[0]],
    },
    SPEED: {
        'on target within {} s and kept there for {} s; hidden mass {}-{} kg, friction {}-{} | '
        '{} of {} seeds; median {} s, maximum {} s |': lambda: [
            task(PUSH)['duration_s'], task(PUSH)['success']['hold_s'], *of.drawn('block_mass'),
            *of.drawn('block_friction'), *rate(runs(PUSH)), median_s(runs(PUSH)),
            max(row['time_s'] for row in runs(PUSH))],
        'a-push-without-tags)) | {} of {} ({} to {} %); median {} s, maximum {} s |':
            lambda: said(TRACKING, LIVE),
        'friction {} (prior {}), mass {} kg (prior {})': lambda: [
            sd for name in ('block_friction', 'block_mass')
            for sd in (of.rms_error(name), of.prior_sd(name))],
        'upright within {} s and kept for {} s | {} of {}; median {} s |': lambda: [
            task(CARTPOLE)['duration_s'], task(CARTPOLE)['success']['hold_s'],
            *rate(runs(CARTPOLE)), median_s(runs(CARTPOLE))],
        '| {}, {} and {} of {}; median {}, {} and {} s |': lambda: [
            *of.successes('emppi', *BOXES, TIP), len(runs(TIP)),
            *(median_s(runs(name)) for name in (*BOXES, TIP))],
        '| {} of {}; median {} control steps; {} of {} within {}, {} within {} |': lambda: [
            *rate(runs(CHEETAH)), np.median(of.flip_steps()), of.flips(SOON),
            len(of.flip_steps()), SOON, len(of.flip_steps()) - 1, sorted(of.flip_steps())[-2]],
        'planner: {} models x {} rollouts x {} steps | {} Hz':
            lambda: [*of.size(PUSH), task(PUSH)['planner']['rate_hz']],
        'belief, {} particles': lambda: [task(PUSH)['belief']['particles']],
        '({} of {} for `mppi-true`, `mppi-mean` and `no-update` alike)': lambda: [
            min(of.successes(c, PUSH)[0] for c in ('mppi-true', 'mppi-mean', 'no-update')),
            len(runs(PUSH, 'no-update'))],
        'drawer and cabinet: {} and {} of {} runs succeed with updates, {} and {} of {} without':
            lambda: [of.successes('emppi', BOXES[0])[0], *rate(runs(BOXES[1])),
                     *of.successes('no-update', *BOXES), len(runs(BOXES[1], 'no-update'))],
        'prior\'s mean also succeeds in all {} of both':
            lambda: [min(of.successes('mppi-mean', *BOXES))],
        'requires it: {} of {} runs succeed with updates, {} without, and {} with':
            lambda: [*rate(runs(CHEETAH)), *of.successes('no-update', CHEETAH), max(
                of.successes(c, CHEETAH)[0] for c in ('mppi-mean', 'mppi-wrong'))],
    },
    CLAIMS: {
        '{} of {} runs, 6 hours': lambda: said('docs/results.md', 'UTC. {} of {} runs'),
        'with the true parameters {} of {} runs of `panda_push` (mass {} to {} kg, friction {} to '
        '{}) succeed, at least {} of {} at every point': of.known_truth,
        'with friction {}, which slide past the target; the heaviest and roughest block arrives '
        'after {} to {} s': of.lost_and_heaviest,
        'in {} of {} runs, like the oracle, after a median of {} control steps (oracle: {})':
            lambda: [*rate(runs(CHEETAH)), np.median(of.flip_steps()),
                     np.median(of.flip_steps('mppi-true'))],
        'it does so in only {} of {} runs ({} within 262, all within {}; oracle: {})': lambda: [
            of.flips(SOON), len(of.flip_steps()), of.flips(262), max(of.flip_steps()),
            of.flips(SOON, 'mppi-true')],
        'in {} of {} runs (oracle {}, wrong model {})': lambda: [
            *rate(runs('adroit_door')), *of.successes('mppi-true', 'adroit_door'),
            *of.successes('mppi-wrong', 'adroit_door')],
        'die to {} of {} targets; {} % of the squared error':
            lambda: [*of.attempts('shadow_dice'), of.error_left('shadow_dice')],
        'in {} filtered runs without control': lambda: [of.always_inside()],
        'on the drawer ({} of {} runs), but in {} of {} on the cabinet':
            lambda: [*of.kinds_known(BOXES[0]), *of.kinds_known(BOXES[1])],
        'and in {} of {} on Adroit': lambda: of.kinds_known('adroit_door'),
    },
    TASKS: {
        '{} of {} runs of `panda_drawer` succeed over ROS, and {} of {} of `panda_cabinet`':
            lambda: [*of.busy(BOXES[0], 0.0), *of.busy(BOXES[1], 0.0)],
        'succeeds in {} of {} runs, at the median {} s after the grasp':
            lambda: [*of.picked_up('emppi'), of.pickup_s()],
        'mean of the prior succeeds in {}, and one whose belief takes the mass for constant in {}':
            lambda: [*of.picked_up('prior-mean')[:1], *of.picked_up('frozen')[:1]],
    },
    TRACKING: {
        'known to {} to {} mm (95 % of images), and axes to {} to {} degrees':
            lambda: [*ends(of.tracked(FIRST, 'centre_p95_mm')),
                     *ends(of.tracked(FIRST, 'axis_p95_deg'))],
        'An image takes {} to {} ms': lambda: ends(of.image_ms(FIRST).values()),
        'Errors are {} to {} times less': lambda: ends(
            [of.below_icp(FIRST, video) for video in ('cartpole', 'cabinet')]),
        'and {} times for a small block': lambda: [of.below_icp(FIRST, 'block')],
        'too large: {} to {} % of errors':
            lambda: ends([100 * inside for inside in of.tracked(FIRST, 'inside')]),
        'centres are known to {} to {} mm, and axes to {} to {} degrees. The worst': lambda: [
            *ends(of.tracked(SMOOTHED, 'centre_p95_mm')),
            *ends(of.tracked(SMOOTHED, 'axis_p95_deg'))],
        'Errors of the block are {} times less': lambda: [of.below_icp(SMOOTHED, 'block')],
        'too small: {} to {} % of errors':
            lambda: ends([100 * inside for inside in of.tracked(SMOOTHED, 'inside')]),
        'The smoother adds {} to {} ms': lambda: ends(of.smoothing_ms()),
        'known to {} to {} mm, and axes to {} to {} degrees (block: {}), in all {} videos':
            lambda: [*ends(of.tracked(SECOND, 'centre_p95_mm')),
                     *ends(of.tracked(SECOND, 'axis_p95_deg', ('cartpole', 'cabinet'))),
                     *of.tracked(SECOND, 'axis_p95_deg', ('block',)),
                     len(rows('results_track', tracker=SECOND))],
        'a tenth of that of ICP is {}.': lambda: [of.absolute('icp') / 10],
        'the second pass reaches {}.': lambda: [of.absolute(SECOND)],
        '`--smooth` reaches {}.': lambda: [of.absolute(SMOOTHED)],
    },
    'docs/quickstart.md': {
        'time_s {} block_mass mean {} sd {} true {} out_of_prior': lambda: [
            value for row in runs(TIP) if row['seed'] == 1 for value in (row['time_s'], *(
                row['parameters']['block_mass'][name] for name in ('mean', 'sd', 'true')))],
    },
    'docs/papers/emppi.md': {
        f'| `{name}` | {{}} | {{}} | {{}} |': lambda name=name: of.by_table_i(name)
        for name in (CHEETAH, 'shadow_dice', 'adroit_door', *BOXES, PUSH, TIP)
    },
    CHANGES: {'rest within {} ms of': lambda: said('docs/reliability.md', STOP)},
}  # fmt: skip
NAME, TIMED = 'part of a name', 'a measured timing, with its command beside it'
SHARE, SETTING = 'says which share is meant', 'a setting'
GIVEN = {
    README: {'90 % interval': SHARE, 'within 2 s': SHARE},
    HIGHLIGHTS: {
        'ROS 2': NAME, '90 % interval': SHARE, 'within 2 s': SHARE, '(95 % of images)': SHARE,
        'a noise of 9 mm': SETTING,
    },
    SPEED: {
        'ROS 2': NAME, '(seeds 100 to 107, on 2026-11-26)': SETTING,
        '8 of 8 (68 to 100 %); median 4.2 s, maximum 5.7 s': 'the command beside it repeats it',
        '15 to 19 ms per plan (p99 22 to 25)': TIMED, '250 Hz': SETTING, '50 Hz': SETTING,
        'p99 4.4 to 4.6 ms; 0.9 ms from a joint state to its command (p99 1.1 to 3.6)': TIMED,
        '| 1.12 to 1.23 |': TIMED, '| 1.06 to 1.17 |': TIMED,
    },
}  # fmt: skip
COMPLETE = {
    README: r'## Highlights\n.*?(?=^## )',
    HIGHLIGHTS: r'## Highlights.*',
    SPEED: r'^\|.*?\n\n',
}  # all numbers are checked
EACH = [(page, sentence) for page, sentences in QUOTES.items() for sentence in sentences]


@pytest.mark.parametrize(('page', 'sentence'), EACH, ids=lambda name: name[:40])
def test_numbers_on_a_page_are_those_of_the_rows(page, sentence):
    found = places(page, sentence)
    assert found, f'{page} does not say any more: {sentence!r}'
    wanted = QUOTES[page][sentence]()
    for match in found:
        quoted = match.groups()
        assert len(quoted) == len(wanted)
        pairs = zip(quoted, wanted, strict=True)
        wrong = [f'{word!r} is {value:.6g} by the rows' for word, value in pairs
                 if differs(word, value)]  # fmt: skip
        assert not wrong, f'{page}: {" ".join(match[0].split())!r}: {"; ".join(wrong)}'


def differs(quoted, value):
    """Return whether a value would not be quoted so, with as many decimals."""
    return abs(number(quoted) - value) > 0.5 * 10.0 ** -len(quoted.partition('.')[2]) + 1e-9


@pytest.mark.parametrize('page', COMPLETE)
def test_every_number_has_a_source(page):
    part = re.search(COMPLETE[page], text(page), re.DOTALL | re.MULTILINE)
    sourced = {
        index
        for sentence in QUOTES[page]
        for match in places(page, sentence)
        for group in range(1, len(match.groups()) + 1)
        for index in range(*match.span(group))
    }
    for fragment in GIVEN[page]:
        found = places(page, fragment)
        assert found, f'{page} does not say any more: {fragment!r}'
        sourced.update(*(range(*match.span()) for match in found))
    shown = re.sub(r'`[^`]*`|\]\([^)]*\)', lambda m: ' ' * len(m[0]), text(page))
    bare = re.compile(rf'(?<![\w.]){NUMBER}(?!\w)')
    new = [
        ' '.join(shown[max(0, match.start() - 50) : match.end() + 20].split())
        for match in bare.finditer(shown, *part.span())
        if match.start() not in sourced
    ]
    assert not new, f'{page}: add to QUOTES: {new}'

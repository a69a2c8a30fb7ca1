"""Operators read in plain words what makes a belief doubtful."""

import copy

from emppi_ros.belief import explanations

GOOD = {
    'parameters': {
        'block_mass': {'mean': 1.0, 'sd': 1e-2, 'out_of_prior': False, 'unidentifiable': False},
        'slip': {'mean': 0.5, 'sd': 0.1, 'out_of_prior': False, 'unidentifiable': False},
    },
    'misfit': [],
    'collapsed': [],
    'unresolved': [],
    'ess_min': 20.0,
    'reinjected': 0,
    'changes': [],
}


def changed(**values):
    return copy.deepcopy(GOOD) | values


def flagged(flag):
    summary = copy.deepcopy(GOOD)
    summary['parameters']['block_mass'][flag] = True
    return summary


def test_a_good_belief_needs_no_warning():
    assert explanations.warnings(GOOD) == []
    assert explanations.misfit([]) == explanations.out_of_prior([]) == ''
    assert explanations.collapsed([]) == ''


def test_each_doubt_is_a_warning_that_names_what_it_is_about():
    for summary, words in (
        (changed(misfit=['joint_velocity', 'object_position']), 'joint velocity and object pos'),
        (changed(reinjected=3), 'no particle explained 3 of the measurements'),
        (changed(collapsed=['block_mass']), 'belief about block mass has collapsed'),
        (changed(unresolved=['block_mass']), 'belief about block mass is narrower than 0.001'),
        (changed(late_measurements=0.6), 'too slow for the belief: it skipped 60%'),
        (changed(ess_min=1.1), 'a single particle had nearly all the weight'),
        (flagged('unidentifiable'), 'say almost nothing about block mass'),
        (flagged('out_of_prior'), 'the prior of block mass contradicts'),
    ):
        (warning,) = explanations.warnings(summary)
        assert words in warning


def test_a_collapsed_standard_deviation_never_stands_alone():
    text = explanations.readable(changed(collapsed=['block_mass']))
    assert text['parameters']['block_mass']['sd'] == '0.01 (collapsed)'
    assert text['parameters']['slip'] == GOOD['parameters']['slip']


def test_an_unresolved_standard_deviation_never_stands_alone():
    text = explanations.readable(changed(unresolved=['block_mass']))
    assert text['parameters']['block_mass']['sd'] == '0.01 (too narrow to be true)'
    both = changed(unresolved=['block_mass'], collapsed=['block_mass'])
    assert explanations.readable(both)['parameters']['block_mass']['sd'] == '0.01 (collapsed)'
    assert len(explanations.warnings(both)) == 1


def test_changes_are_text_and_absent_without_any():
    change = {'parameter': 'slip', 'time_s': 5.26}
    assert explanations.readable(changed(changes=[change]))['changes'] == 'slip at 5.26 s'
    assert set(explanations.readable(GOOD)) == {'parameters', 'ess_min'}

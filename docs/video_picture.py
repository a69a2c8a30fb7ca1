"""
Draw docs/video.png: a depth video, the inferred mechanism, its posterior, and a swing-up with it.

Also draw docs/video_posterior.png, the posterior as `emppi identify --report` draws it, with the
truth, and docs/video_pushed.png, levers that an arm pushes.

Run it as `python docs/video_picture.py`. The film is the cart-pole of seed 100, the first of
`emppi bench video`.
"""

from pathlib import Path
import tempfile

from matplotlib.figure import Figure
import numpy as np

from benchmarks.video import compute, control, films, pipeline, pushes
from benchmarks.video.compute import OWN, VideoCell
from benchmarks.video.mechanisms import MECHANISMS
from emppi_ros.articulation.mjcf import joint_frame
from emppi_ros.identification.common import figures
from emppi_ros.viz.palette import BLUE, GREY, ORANGE
from emppi_ros.viz.report.plots import styled

NAME, SEED, IMAGE = 'cartpole', 100, 60
OUT = Path(__file__).with_name('video.png')
PUSHED = Path(__file__).with_name('video_pushed.png')
PAIRS = Path(__file__).with_name('video_posterior.png')


def main() -> None:
    """Go the whole way for one film, and draw a panel for each step."""
    film = films.make(MECHANISMS[NAME], SEED)
    followed = pipeline.follow(film)
    with tempfile.TemporaryDirectory() as name, styled():
        folder = Path(name)
        tree = pipeline.infer_tree(followed, film, SEED)
        mechanism = pipeline.write_mechanism(tree, film, folder)
        samples = compute.METHODS[OWN](mechanism, film, VideoCell(NAME, OWN, SEED))
        figure = Figure(figsize=(13, 3.3), layout='constrained')
        seen, moved, known, swung = figure.subplots(1, 4)
        seen.imshow(film.images[IMAGE], cmap='viridis', vmin=1.0, vmax=3.0)
        seen.set_title('depth video')
        seen.axis('off')
        for part, color in zip(followed.tracks.parts, (BLUE, ORANGE), strict=True):
            middle = part.poses.position
            if part.name == 'pole':
                middle = middle + 0.4 * part.poses.rotation[:, :, 2]
            moved.plot(middle[:, 0], middle[:, 2], '.', color=color, label=part.name, ms=3)
        cart, pole = (mechanism.tree.joint(part) for part in film.mechanism.parts)
        ends = cart.model.axis[[0, 2]] * np.array([[-0.6], [0.6]])
        moved.plot(*ends.T, '-', color=GREY, label='inferred slide', zorder=0)
        first = followed.tracks.parts[1].poses.at(0)
        hinge = first.position + first.rotation @ joint_frame(pole.model).position
        moved.plot(*hinge[[0, 2]], 'o', mfc='none', color='black', label='inferred hinge')
        moved.set(xlabel='x [m]', ylabel='z [m]', aspect='equal', ylim=(-0.5, 0.5))
        moved.set_title('tracks, joints')
        moved.legend(fontsize=8, loc='upper center', ncols=2)
        for row, unknown in enumerate(mechanism.plant.unknowns):
            relative = 100.0 * (samples[:, row] / film.truth[unknown.name] - 1.0)
            low, high = np.quantile(relative, [0.05, 0.95])
            known.plot([low, high], [row, row], color=BLUE, linewidth=5)
        known.axvline(0.0, color=GREY, linewidth=1)
        names = [unknown.name.replace('_', ' ') for unknown in mechanism.plant.unknowns]
        known.set_yticks(range(len(names)), names)
        known.set_xlabel('90 % interval, % from the truth')
        known.set_title('posterior')
        truth = np.array([film.truth[unknown.name] for unknown in mechanism.plant.unknowns])
        figures.draw_pairs(mechanism.plant.unknowns, samples, truth).savefig(PAIRS, dpi=70)
        times, angles = control.run('swing-up', mechanism, film, samples, 0, folder)
        swung.plot(times, np.degrees(angles), color=BLUE)
        swung.set(xlabel='time [s]', ylabel='pole from upright [deg]')
        swung.set_title('swing-up with it')
        figure.savefig(OUT, dpi=110)
    print(f'wrote {OUT} and {PAIRS}; {pole.kind} on {pole.parent}')


def draw_pushed() -> None:
    """Draw depths of a film of levers that an arm pushes."""
    film = pushes.make(MECHANISMS['pushed'], SEED, seconds=4.0)
    figure = Figure(figsize=(13, 2.6), layout='constrained')
    for axis, image in zip(figure.subplots(1, 4), film.images[10::35], strict=True):
        axis.imshow(image, cmap='viridis', vmin=0.6, vmax=1.6)
        axis.axis('off')
    figure.savefig(PUSHED, dpi=70)


if __name__ == '__main__':
    main()
    draw_pushed()

"""What is welded to a link is a part of it, and parts add up."""

import numpy as np

from emppi_ros.core.paths import ASSETS
from emppi_ros.identify.rigid_body import arm, consistency, welded
from emppi_ros.identify.rigid_body.regressor import parameters


def test_pseudo_inertias_of_parts_add_up_to_those_of_wholes():
    """What is welded is fused by MuJoCo as the parts say; checked on both arms of the package."""
    for scene, joint in (('fr3_follow.xml', 'fr3_joint1'), ('panda_push.xml', 'panda_joint1')):
        whole, loose = (arm.load(ASSETS / scene, None, [joint], fuse) for fuse in (True, False))
        total = np.zeros((whole.nbody - 1, 10))
        for part in welded.parts(loose):
            total[part.whole] += part.own
            back = welded.moved(part.own, np.linalg.inv(part.pose))
            assert np.linalg.eigvalsh(consistency.pseudo_inertia(back))[0] > 0.0
        np.testing.assert_allclose(total, parameters(whole).reshape(-1, 11)[:, :10], atol=1e-12)

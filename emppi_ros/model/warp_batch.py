"""
`mujoco.batch.Batch` on MuJoCo Warp: the only module that imports Warp (extra `warp`).

Parameters, derived constants and states are those of the batch that it extends, in double
precision; rollouts run in Warp, in single precision. World k * M + m on the device is rollout k of
model m, so that fields have a row for each of the M models, and the first M worlds are one of
each. Warp lacks the flag `diagexact`, without which pushed blocks turn wrongly: it is added here.
"""

from collections.abc import Iterable, Mapping, Sequence
import copy
from typing import Any
import warnings

import mujoco
from mujoco.batch import MODEL_FIELDS, Batch
import mujoco_warp as mjw
import numpy as np
import numpy.typing as npt
import warp as wp

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, SceneError
from emppi_ros.model import scene
from emppi_ros.model.parameters import Parameter

CAPTURE = True  # rollouts as CUDA graphs
MOST_CONTACTS = 4096  # per world
_DIAGEXACT = mujoco.mjtEnableBit.mjENBL_DIAGEXACT.value
_AUTORESET = mujoco.mjtDisableBit.mjDSBL_AUTORESET.value  # Warp never resets
_CONTROL = mujoco.mjtState.mjSTATE_CTRL.value
_INPUTS = {'ctrl': _CONTROL, 'qfrc_applied': mujoco.mjtState.mjSTATE_QFRC_APPLIED.value}
_ENDS = 'time', 'qpos', 'qvel', 'act'  # written back after a rollout
_WORLD = 'qacc_warmstart', 'qfrc_applied', 'xfrc_applied', 'eq_active', 'mocap_pos', 'mocap_quat'
_INVERSE_WEIGHTS = {'body_invweight0': 0.5, 'dof_invweight0': 1.0, 'tendon_invweight0': 1.0}
_COUPLINGS = mujoco.mjtEq.mjEQ_JOINT.value, mujoco.mjtEq.mjEQ_TENDON.value
_ELLIPTIC = wp.constant(mujoco.mjtConstraint.mjCNSTR_CONTACT_ELLIPTIC.value)
_LIMITS = mjw.OverflowType.ITERATIONS | mjw.OverflowType.LS_ITERATIONS  # of the scene
_MEMORY = mjw.OverflowType.NEFC | mjw.OverflowType.NJMAX_NNZ | mjw.OverflowType.CCD
_MEMORY |= mjw.OverflowType.BROADPHASE | mjw.OverflowType.NARROWPHASE
wp.config.log_level = wp.LOG_WARNING


def find_device(name: str) -> Any:
    """Return Warp's device for `cuda`, `cuda:N` or `warp-cpu`; ConfigError if it is not here."""
    devices = {device.alias: device for device in (wp.get_device('cpu'), *wp.get_cuda_devices())}
    if (alias := {'warp-cpu': 'cpu', 'cuda': 'cuda:0'}.get(name, name)) not in devices:
        raise ConfigError(
            f'device: {name}: Warp {wp.config.version} finds no such device, only '
            f'{", ".join(devices)}: check the driver with `nvidia-smi`, or set `device: cpu`'
        )
    return devices[alias]


class WarpBatch(Batch):  # type: ignore[misc]  # MuJoCo has no type information
    """Simulations of M models with K rollouts each, simulation m * K + k, on a device of Warp."""

    def __init__(
        self,
        model: mujoco.MjModel,
        parameters: Sequence[Parameter],
        shape: tuple[int, int],
        threads: int,
        device: str,
    ) -> None:
        """Put M, K = `shape` models on the device; SceneError names what Warp does not support."""
        super().__init__(model, shape[0] * shape[1], threads)
        self._shape, self._name, self._stale = shape, device, True
        self._exact = bool(model.opt.enableflags & _DIAGEXACT)
        self._nominal = nominal = copy.copy(model)  # without what Warp lacks
        nominal.opt.disableflags &= ~_AUTORESET
        nominal.opt.enableflags &= ~_DIAGEXACT
        self._rows: dict[str, Any] = {}  # fields that differ between models
        self._worlds: dict[int, Any] = {}  # data of Warp, by the number of worlds
        self._rollouts: dict[tuple[object, ...], _Rollout] = {}
        self._device = find_device(device)
        with wp.ScopedDevice(self._device):
            try:
                self._warp = mjw.put_model(nominal)
            except (NotImplementedError, ValueError) as error:
                raise self._refusal(str(error)) from None
            least = mjw.make_data(nominal)
        self._contacts, self._constraints = least.naconmax, least.njmax  # per world: a guess
        self._warp.opt.tolerance.fill_(model.opt.tolerance)  # not 1e-6, with which blocks jump
        self._warp.opt.warn_overflow = 0  # it prints; here overflows are errors
        self._warp.opt.deterministic = True  # replays repeat a run bit for bit
        # also if they are 0 in the scene: they may be parameters
        self._warp.has_tendon_stiffness = self._warp.has_tendon_damping = model.ntendon > 0
        self._check_support(parameters)
        if self._exact:
            for name, value in _INVERSE_WEIGHTS.items():  # each constraint's diagonal: 1
                getattr(self._warp, name).fill_(value)
            self._warp.callback.passive = _divide_by_exact_diagonal

    def _refusal(self, why: str) -> SceneError:
        return SceneError(
            f'device: {self._name}: MuJoCo Warp cannot simulate this scene: {why}; set '
            '`device: cpu`, or change the scene'
        )

    def _check_support(self, parameters: Sequence[Parameter]) -> None:
        """Raise SceneError for what Warp would simulate wrongly without a word."""
        model, flags = self._nominal, mujoco.mjtDisableBit
        for parameter in parameters:
            of, fixed = f'parameters: {parameter.name}: {parameter.field}', False
            if parameter.field == 'body_pos':
                body = scene.find(model, 'body', parameter.of)
                fixed = model.body_weldid[body] == 0
                fixed &= model.body_mocapid[model.body_rootid[body]] < 0
            if fixed or parameter.field in ('jnt_type', 'jnt_articulation'):
                raise self._refusal(f'{of} of {parameter.of!r} is the same in all models there')
        passive = flags.mjDSBL_SPRING | flags.mjDSBL_DAMPER
        for what, there in {
            'a pyramidal cone': model.opt.cone != mujoco.mjtCone.mjCONE_ELLIPTIC and model.ngeom,
            'sparse Jacobians': self._warp.is_sparse,
            'equality constraints of joints or tendons': np.isin(model.eq_type, _COUPLINGS),
            'adhesion': model.geom_adhesion,
            'neither springs nor dampers': model.opt.disableflags & passive == passive,
        }.items():
            if self._exact and np.any(there):
                raise self._refusal(f'the flag diagexact together with {what}')

    def set_const(self, ids: npt.ArrayLike | None = None) -> None:
        """Update derived constants, of the first rollout of each model only."""
        every = np.arange(self.nsim) if ids is None else np.asarray(ids)
        super().set_const(every[every % self._shape[1] == 0])
        self._stale = True

    def rollout(
        self,
        nstep: int,
        control: Array,
        control_spec: int = _CONTROL,
        record: Sequence[str] = ('qpos',),
        ids: npt.ArrayLike | None = None,
        out: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> dict[str, npt.NDArray[Any]]:
        """
        Roll out as `Batch.rollout`: all simulations, or `ids`, the first rollout of each model.

        If there are more contacts or constraints than memory for them, it is doubled, with a
        warning, and the rollout repeated. SceneError if that does not help.
        """
        rollouts = self._shape[1] if ids is None else 1
        rows, count = slice(None, None, self._shape[1] // rollouts), self._shape[0] * rollouts
        order = np.arange(count).reshape(-1, rollouts).T.ravel()  # simulations of the worlds
        place = np.argsort(order)  # worlds of the simulations
        bits = {name: bit for name, bit in _INPUTS.items() if control_spec & bit}
        ends = np.cumsum([mujoco.mj_stateSize(self.model, bit) for bit in bits.values()])
        inputs = np.split(control[order].swapaxes(0, 1), ends[:-1], axis=-1)
        with wp.ScopedDevice(self._device):
            self._upload()
            repeat = True
            while repeat:
                if count not in self._worlds:
                    sizes = {'nconmax': self._contacts, 'njmax': self._constraints}
                    self._worlds[count] = mjw.make_data(self._nominal, count, **sizes)
                data, size = self._worlds[count], (count, nstep, *bits, *record)
                if size not in self._rollouts:
                    self._rollouts[size] = _Rollout(data, nstep, bits, record)
                rolled = self._rollouts[size]
                data.overflow.zero_()
                # mjw.set_state would make a kernel at each call, for 30 ms
                for name in (*_ENDS, *_WORLD):
                    if (array := getattr(data, name)).size:
                        array.assign(self.bind(name)[rows][order])
                for buffer, values in zip(rolled.inputs.values(), inputs, strict=True):
                    buffer.assign(values)
                rolled.run(self._warp)
                repeat = self._grow(int(np.bitwise_or.reduce(data.overflow.numpy())))
            for name in _ENDS:
                self.bind(name)[rows] = getattr(data, name).numpy()[place]
            records = {name: array.numpy() for name, array in rolled.records.items()}
        for name in ('qpos', 'qvel'):
            whole = np.abs(self.bind(name)[rows]) < mujoco.mjMAXVAL  # false if NaN
            self.warning[rows, 0, 1] += ~np.all(whole, axis=1)
        result = {}
        for name, values in records.items():  # (steps, worlds, ...)
            like = np.asarray(getattr(self._data, name))
            result[name] = (out or {}).get(name, np.empty((count, nstep, *like.shape), like.dtype))
            by_world = values.reshape(nstep, count, *like.shape)
            np.copyto(result[name], by_world[:, place].swapaxes(0, 1))
        return result

    def _grow(self, overflow: int) -> bool:
        """Return whether a rollout is to be repeated, with more memory."""
        if not (overflow := overflow & ~_LIMITS):
            return False
        names = ', '.join(str(kind.name) for kind in mjw.OverflowType if kind & overflow == kind)
        if overflow & ~_MEMORY or self._contacts >= MOST_CONTACTS:
            raise self._refusal(f'overflow of {names}, with {self._contacts} contacts per world')
        self._contacts, self._constraints = 2 * self._contacts, 2 * self._constraints
        self._worlds.clear()
        self._rollouts.clear()
        warnings.warn(
            f'device: {self._name}: overflow of {names}: now memory for {self._contacts} contacts '
            f'and {self._constraints} constraints per world', stacklevel=4,
        )  # fmt: skip
        return True

    def _upload(self) -> None:
        """Write the fields that differ between models to the device."""
        for name in MODEL_FIELDS if self._stale else ('opt.timestep',):
            values = self.expanded(name)
            if values is None or (self._exact and name in _INVERSE_WEIGHTS):
                continue
            owner, key = (self._warp.opt, name[4:]) if name[:4] == 'opt.' else (self._warp, name)
            shared: Any = getattr(owner, key, None)
            if name not in self._rows and getattr(shared, '_is_batched', False):
                self._rows[name] = wp.empty((self._shape[0], *shared.shape[1:]), shared.dtype)
                self._rows[name]._is_batched = True  # as Warp marks fields with a row per model
                setattr(owner, key, self._rows[name])
                self._rollouts.clear()  # graphs hold the old array
            if name in self._rows:
                array = self._rows[name]
                array.assign(values[:: self._shape[1]].reshape(array.numpy().shape))
        self._stale = False


class _Rollout:
    """Inputs and records of a number of steps on the device, and their graph."""

    def __init__(
        self, data: Any, steps: int, inputs: Iterable[str], record: Iterable[str]
    ) -> None:
        for name in (name for name in record if not hasattr(data, name)):
            raise SceneError(f'MuJoCo Warp does not compute {name}: set `device: cpu`')
        sources = {name: getattr(data, name) for name in (*inputs, *record)}
        buffers = {n: wp.empty((steps, *s.shape), dtype=s.dtype) for n, s in sources.items()}
        self.inputs = {name: buffers[name] for name in inputs}
        self.records = {name: buffers[name] for name in record}
        self._data, self._graph, self._steps, self._compiled = data, None, steps, False

    def run(self, model: Any) -> None:
        """Step the worlds; the first time kernels are compiled, the second captured."""
        if self._compiled and self._graph is None and CAPTURE and wp.get_device().is_cuda:
            with wp.ScopedCapture() as capture:
                self._step(model)
            self._graph = capture.graph
        self._compiled = True
        if self._graph is None:
            self._step(model)
        else:
            wp.capture_launch(self._graph)

    def _step(self, model: Any) -> None:
        for step in range(self._steps):
            for name, buffer in self.inputs.items():
                wp.copy(getattr(self._data, name), buffer[step])
            mjw.step(model, self._data)
            for name, buffer in self.records.items():
                wp.copy(buffer[step], getattr(self._data, name))


def _divide_by_exact_diagonal(model: Any, data: Any) -> None:
    """Divide the weights D of constraints by the diagonal of J M^-1 J^T, as `diagexact` does."""
    efc, inputs = data.efc, [model.M_rownnz, model.M_rowadr, model.M_colind, data.M, data.nefc]
    inputs += [efc.J, efc.type, efc.id, data.contact.efc_address]
    factor = wp.empty((data.nworld, model.nv + 1, model.nv), dtype=float)
    diagonal = wp.empty((data.nworld, data.njmax), dtype=float)
    wp.launch(_divide, data.nworld, inputs, [factor, diagonal, efc.D])


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]  # Warp may be missing
def _divide(
    row_size: wp.array[int],
    row_start: wp.array[int],
    column: wp.array[int],
    mass: wp.array2d[float],
    count: wp.array[int],
    jacobian: wp.array3d[float],
    kind: wp.array2d[int],
    index: wp.array2d[int],
    address: wp.array2d[int],
    factor: wp.array3d[float],  # L of M = L L^T, whose lower triangle is sparse; then L^-1 J^T
    diagonal: wp.array2d[float],
    weight: wp.array2d[float],
) -> None:
    """Divide weights by |L^-1 J^T|^2, those of elliptic friction by that of their normal."""
    world, size = wp.tid(), factor.shape[2]
    for i in range(size):
        for j in range(i + 1):
            factor[world, i, j] = 0.0
        for k in range(row_start[i], row_start[i] + row_size[i]):
            factor[world, i, column[k]] = mass[world, k]
        for j in range(i + 1):
            value = factor[world, i, j]
            for k in range(j):
                value -= factor[world, i, k] * factor[world, j, k]
            if i == j:
                factor[world, i, j] = wp.sqrt(value)
            else:
                factor[world, i, j] = value / factor[world, j, j]
    for row in range(wp.min(count[world], diagonal.shape[1])):
        total = float(0.0)  # noqa: UP018 - a variable of the kernel, not a constant
        for i in range(size):
            value = jacobian[world, row, i]
            for k in range(i):
                value -= factor[world, i, k] * factor[world, size, k]
            factor[world, size, i] = value / factor[world, i, i]
            total += factor[world, size, i] * factor[world, size, i]
        diagonal[world, row] = wp.max(total, 1.0e-15)
    for row in range(wp.min(count[world], diagonal.shape[1])):
        normal = row
        if kind[world, row] == _ELLIPTIC:
            normal = address[index[world, row], 0]
        weight[world, row] /= diagonal[world, normal]

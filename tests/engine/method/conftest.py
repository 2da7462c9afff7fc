"""Small decomposition problems with known parts, for brute force."""

from dataclasses import dataclass

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import MethodConfig, Precision
from qmcif_engine.method.lagrangian import CoefficientState, Problem, SolverState
from qmcif_engine.method.updates import CoefficientOperator

PATCH_PX = 5
N_ATOMS = 6
IMAGE_SHAPE = (3, 10, 15)
GROUPS = ((0, 2, 5), (1,), (3, 4))


@dataclass(frozen=True)
class TinyProblem:
    """A problem of six patches in three groups, its quaternion dictionary, and a state in which nothing fits by chance."""

    problem: Problem
    state: SolverState
    atoms: np.ndarray


def unit_atoms(generator, *, n_pixels, n_atoms):
    """Return atoms of unit norm with all four components, unlike the pictures, so that products have a real part."""
    atoms = generator.normal(size=(4, n_pixels, n_atoms))
    return atoms / np.sqrt(np.sum(atoms**2, axis=(0, 1)))


@pytest.fixture(scope="session")
def textured_image():
    """Return a maker of pictures on the 0-255 scale: waves and a step on the left, noise on top of them on the right."""

    def make(shape, seed=0):
        rows, columns = np.mgrid[: shape[0], : shape[1]]
        waves = np.stack([110 + 60 * np.sin(columns / 5 + channel) + 30 * (rows > shape[0] / 2) for channel in range(3)])
        noise = np.random.default_rng(seed).normal(0, 25, (3, *shape))
        return np.clip(waves + noise * (columns > shape[1] / 2), 0, 255)

    return make


@pytest.fixture(scope="session")
def make_tiny_problem():
    """Return a maker of problems in float64 whose variables and multipliers are all random."""

    def make(seed, *, is_low_rank, **settings):
        generator = np.random.default_rng(seed)
        config = MethodConfig(base_patch_px=PATCH_PX, precision=Precision.DOUBLE, is_low_rank=is_low_rank, **settings)
        image = generator.uniform(0, 255, IMAGE_SHAPE)
        atoms = unit_atoms(generator, n_pixels=PATCH_PX**2, n_atoms=N_ATOMS)
        patches, operator, groups = None, None, ()
        if is_low_rank:
            operator = CoefficientOperator.from_dictionary(atoms, dtype=np.float64)
            groups = tuple(np.array(members) for members in GROUPS)
            n_patches = sum(map(len, GROUPS))
            heights = (4 * N_ATOMS, 4 * N_ATOMS, 4 * N_ATOMS, 4 * PATCH_PX**2)
            patches = CoefficientState(*(generator.normal(0, 20, (height, n_patches)) for height in heights))
        layers = [generator.normal(0, 40, IMAGE_SHAPE) for _ in range(4)]
        fields = [generator.normal(0, 20, (2, *IMAGE_SHAPE)) for _ in range(2)]
        return TinyProblem(Problem(image, config, operator, groups), SolverState(*layers, *fields, patches), atoms)

    return make

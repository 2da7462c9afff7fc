"""Kernels of several threads do not disturb each other."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from qmcif_engine.config.fusion_config import DecompositionConfig, RefinementConfig
from qmcif_engine.method.decomposition import decompose
from qmcif_engine.method.patches import vote
from qmcif_engine.method.refinement import refine


def worked_through(seed):
    """Every kind of kernel on pictures of its own."""
    generator = np.random.default_rng(seed)
    sources = generator.uniform(0, 255, (2, 3, 90, 140)).astype(np.float32)
    weights = generator.uniform(0, 1, (2, 90, 140)).astype(np.float32)
    detail = decompose(sources[0], DecompositionConfig(), keep_history=False).detail
    choice = refine(tuple(sources), sources[::-1], weights=weights, detail_patch_px=9, config=RefinementConfig())
    return detail.tobytes(), choice.tobytes(), vote(choice, n_choices=2, side_px=5).tobytes()


def test_threads_at_work_at_once_give_the_bytes_of_one():
    alone = [worked_through(seed) for seed in range(6)]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(worked_through, range(6))) == alone

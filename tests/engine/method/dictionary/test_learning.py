import time
import zipfile

import numpy as np
import pytest

from qmcif_engine.errors import OutputError
from qmcif_engine.method.dictionary import SHIPPED_PATCH_SIDES, array_name, load_dictionary
from qmcif_engine.method.dictionary.learning import (
    align_phase,
    best_rank_one,
    cosine_dictionary,
    learn_dictionary,
    learn_shipped_dictionaries,
    save_dictionaries,
    update_atoms,
)
from qmcif_engine.method.dictionary.pursuit import encode_patches
from qmcif_engine.method.quaternion import conjugate_transpose, matrix_product, modulus, singular_values

ABSOLUTE = 1e4 * np.finfo(np.float64).eps
ELSEWHERE = 1e-5
"""What a machine with other libraries may differ by."""
SPARSITY = 3


def unit_columns(generator, n_rows, n_columns):
    columns = generator.standard_normal((4, n_rows, n_columns))
    return columns / np.linalg.norm(columns, axis=(0, 1))


def relative_error(patches, atoms, *, sparsity=SPARSITY):
    varying = patches - patches.mean(axis=1, keepdims=True)
    codes = encode_patches(varying, atoms[:, :, 1:], sparsity=sparsity)
    return np.linalg.norm(varying - matrix_product(atoms[:, :, 1:], codes)) / np.linalg.norm(varying)


def plant_dictionary(generator, *, n_pixels=12, n_atoms=16, n_patches=1500):
    """Return atoms, the first constant and orthogonal to the others, and patches made of two others and any amount of the first."""
    planted = generator.standard_normal((4, n_pixels, n_atoms))
    planted -= planted.mean(axis=1, keepdims=True)
    planted[:, :, 0] = 0
    planted[0, :, 0] = 1
    planted /= np.linalg.norm(planted, axis=(0, 1))
    codes = np.zeros((4, n_atoms, n_patches))
    for patch in range(n_patches):
        chosen = generator.choice(np.arange(1, n_atoms), 2, replace=False)
        codes[:, chosen, patch] = generator.standard_normal((4, 2))
    codes[:, 0] = 10 * generator.standard_normal((4, n_patches))
    return planted, matrix_product(planted, codes)


def likeness(planted, atoms):
    """Return, for each planted atom, the modulus of its inner product with the most similar atom."""
    return modulus(matrix_product(conjugate_transpose(planted), atoms)).max(axis=1)


@pytest.fixture
def generator():
    return np.random.default_rng(8)


@pytest.fixture(scope="module")
def learned(training_patches):
    """Dictionaries after 0, 2, 5 and 10 iterations."""
    return {n: learn_dictionary(training_patches, cosine_dictionary(5), sparsity=SPARSITY, iterations=n) for n in (0, 2, 5, 10)}


class TestRankOne:
    def test_error_is_that_of_the_singular_values_left_out(self, generator):
        matrix = generator.standard_normal((4, 5, 12))
        column, row = best_rank_one(matrix)
        error = np.linalg.norm(matrix - matrix_product(column, row))
        assert error == pytest.approx(np.linalg.norm(singular_values(matrix)[1:]), rel=ABSOLUTE)
        assert np.linalg.norm(column) == pytest.approx(1, rel=ABSOLUTE)

    def test_no_random_candidate_is_nearer(self, generator):
        matrix = generator.standard_normal((4, 4, 7))
        column, row = best_rank_one(matrix)
        ours = np.linalg.norm(matrix - matrix_product(column, row))
        candidates = unit_columns(generator, 4, 300)
        nearby = column + 1e-3 * generator.standard_normal((4, 4, 300))
        candidates = np.concatenate((candidates, nearby / np.linalg.norm(nearby, axis=(0, 1))), axis=2)
        for index in range(600):
            candidate = candidates[:, :, index, None]
            best_row = matrix_product(conjugate_transpose(candidate), matrix)
            assert np.linalg.norm(matrix - matrix_product(candidate, best_row)) >= ours

    def test_matrix_of_rank_one_is_returned_exactly(self, generator):
        matrix = matrix_product(unit_columns(generator, 6, 1), generator.standard_normal((4, 1, 3)))
        np.testing.assert_allclose(matrix_product(*best_rank_one(matrix)), matrix, atol=ABSOLUTE)


class TestPhase:
    def test_inner_product_becomes_real_and_positive(self, generator):
        column, reference = np.split(unit_columns(generator, 5, 2), 2, axis=2)
        inner = matrix_product(conjugate_transpose(reference), align_phase(column, reference)).ravel()
        assert inner[0] > 0
        np.testing.assert_allclose(inner[1:], 0, atol=ABSOLUTE)

    def test_result_does_not_depend_on_the_phase_before(self, generator):
        column, reference = np.split(unit_columns(generator, 5, 2), 2, axis=2)
        turned = matrix_product(column, unit_columns(generator, 1, 1))
        np.testing.assert_allclose(align_phase(turned, reference), align_phase(column, reference), atol=ABSOLUTE)

    def test_orthogonal_reference_leaves_the_first_element_real_and_positive(self, generator):
        column, reference = np.zeros((2, 4, 5, 1))
        reference[0, 0] = 1
        column[:, 1:] = unit_columns(generator, 4, 1)
        aligned = align_phase(column, reference)
        assert aligned[0, 1, 0] > 0
        np.testing.assert_allclose(aligned[1:, 1], 0, atol=ABSOLUTE)
        np.testing.assert_allclose(modulus(aligned), modulus(column), atol=ABSOLUTE)


class TestSweep:
    def test_atoms_fit_better_with_their_supports_kept(self, generator):
        patches = generator.standard_normal((4, 6, 80))
        atoms = unit_columns(generator, 6, 8)
        codes = encode_patches(patches, atoms, sparsity=2)
        updated = update_atoms(patches, atoms, codes=codes)
        before = np.linalg.norm(patches - matrix_product(atoms, codes))
        refitted = [
            np.linalg.norm(patches[:, :, [p]] - matrix_product(chosen, encode_patches(patches[:, :, [p]], chosen, sparsity=2)))
            for p in range(80)
            for chosen in [updated[:, :, modulus(codes)[:, p] > 0]]
        ]
        assert np.linalg.norm(refitted) < before
        np.testing.assert_allclose(np.linalg.norm(updated, axis=(0, 1)), 1, rtol=ABSOLUTE)

    def test_unused_atom_takes_the_direction_of_the_worst_residual(self, generator):
        atoms = unit_columns(generator, 6, 2)
        patches = matrix_product(atoms[:, :, :1], generator.standard_normal((4, 1, 10)))
        patches[:, :, 7] = 5 * unit_columns(generator, 6, 1)[:, :, 0]
        codes = np.zeros((4, 2, 10))
        codes[:, :1] = matrix_product(conjugate_transpose(atoms[:, :, :1]), patches)
        codes[:, :, 7] = 0
        updated = update_atoms(patches, atoms, codes=codes)
        inner = modulus(matrix_product(conjugate_transpose(updated[:, :, 1:]), patches[:, :, 7:8]))
        assert inner.item() == pytest.approx(5, rel=ABSOLUTE)

    def test_unused_atom_stays_where_nothing_is_left_to_represent(self, generator):
        atoms = unit_columns(generator, 6, 2)
        codes = np.zeros((4, 2, 10))
        codes[:, :1] = generator.standard_normal((4, 1, 10))
        updated = update_atoms(matrix_product(atoms, codes), atoms, codes=codes)
        np.testing.assert_array_equal(updated[:, :, 1], atoms[:, :, 1])
        np.testing.assert_allclose(updated, atoms, atol=ABSOLUTE)

    def test_arguments_are_left_as_they_were(self, generator):
        patches, atoms = generator.standard_normal((4, 6, 30)), unit_columns(generator, 6, 8)
        codes = encode_patches(patches, atoms, sparsity=2)
        copies = patches.copy(), atoms.copy(), codes.copy()
        update_atoms(patches, atoms, codes=codes)
        for array, copy in zip((patches, atoms, codes), copies, strict=True):
            np.testing.assert_array_equal(array, copy)


class TestLearning:
    def test_cosine_dictionary_is_orthonormal_with_the_constant_first(self):
        atoms = cosine_dictionary(5)
        np.testing.assert_allclose(atoms[0].T @ atoms[0], np.eye(25), atol=ABSOLUTE)
        np.testing.assert_allclose(atoms[0, :, 0], 1 / 5, rtol=ABSOLUTE)
        assert not atoms[1:].any()

    def test_atoms_have_unit_norm_and_the_first_is_kept(self, learned):
        np.testing.assert_allclose(np.linalg.norm(learned[10], axis=(0, 1)), 1, rtol=ABSOLUTE)
        np.testing.assert_array_equal(learned[10][:, :, 0], cosine_dictionary(5)[:, :, 0])
        np.testing.assert_allclose(learned[10][:, :, 1:].sum(axis=1), 0, atol=ABSOLUTE)

    def test_error_on_held_out_patches_falls_with_the_iterations(self, learned, held_out_patches):
        errors = [relative_error(held_out_patches, atoms) for atoms in learned.values()]
        assert np.all(np.diff(errors) < 0)

    def test_learned_atoms_beat_cosine_and_random_atoms_at_equal_sparsity(self, learned, held_out_patches, generator):
        random_atoms = unit_columns(generator, 25, 25)
        ours = relative_error(held_out_patches, learned[10])
        assert ours < 0.95 * relative_error(held_out_patches, cosine_dictionary(5))
        assert ours < 0.8 * relative_error(held_out_patches, random_atoms)

    def test_planted_dictionary_is_recovered_from_a_rough_guess(self, generator):
        planted, patches = plant_dictionary(generator)
        guess = planted[:, :, 1:] + 0.7 * unit_columns(generator, 12, 15)
        guess /= np.linalg.norm(guess, axis=(0, 1))
        assert likeness(planted, guess).min() < 0.9
        learned = learn_dictionary(patches, np.concatenate((planted[:, :, :1], guess), axis=2), sparsity=2, iterations=25)
        assert likeness(planted, learned).min() > 0.999

    def test_most_of_a_planted_dictionary_is_recovered_from_drawn_patches(self, generator):
        """K-SVD finds a local minimum: now and then two atoms share two planted ones between them, and stay so."""
        planted, patches = plant_dictionary(generator)
        drawn = patches[:, :, 1:16] - patches[:, :, 1:16].mean(axis=1, keepdims=True)
        drawn /= np.linalg.norm(drawn, axis=(0, 1))
        assert np.count_nonzero(likeness(planted[:, :, 1:], drawn) > 0.99) == 0
        learned = learn_dictionary(patches, np.concatenate((planted[:, :, :1], drawn), axis=2), sparsity=2, iterations=30)
        assert np.count_nonzero(likeness(planted[:, :, 1:], learned) > 0.99) >= 11

    def test_rounding_errors_of_the_training_patches_are_not_amplified(self, training_patches, learned, generator):
        disturbed = training_patches * (1 + 1e-12 * generator.standard_normal(training_patches.shape))
        again = learn_dictionary(disturbed, cosine_dictionary(5), sparsity=SPARSITY, iterations=10)
        np.testing.assert_allclose(again, learned[10], atol=1e-9)

    def test_two_runs_give_the_same_bytes(self, training_patches, learned):
        again = learn_dictionary(training_patches.copy(), cosine_dictionary(5), sparsity=SPARSITY, iterations=10)
        assert again.tobytes() == learned[10].tobytes()

    def test_progress_counts_the_iterations(self, training_patches):
        steps = []
        learn_dictionary(
            training_patches[:, :, ::10],
            cosine_dictionary(5),
            sparsity=1,
            iterations=3,
            progress=lambda done, total: steps.append((done, total)),
        )
        assert steps == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.slow
def test_fresh_run_makes_the_shipped_dictionaries_again(pictures, monkeypatch):
    """All but the largest, which the same loop makes from the same pictures, in twice the time of the others together."""
    sides = SHIPPED_PATCH_SIDES[:-1]
    monkeypatch.setattr("qmcif_engine.method.dictionary.learning.SHIPPED_PATCH_SIDES", sides)
    steps = []
    fresh = learn_shipped_dictionaries(progress=lambda done, total: steps.append((done, total)))
    assert list(fresh) == [array_name(patch_px) for patch_px in sides]
    for patch_px in sides:
        np.testing.assert_allclose(fresh[array_name(patch_px)], load_dictionary(patch_px), rtol=0, atol=ELSEWHERE)
    total = steps[-1][1]
    assert steps == [(done, total) for done in range(1, total + 1)]


class TestSaving:
    @pytest.fixture
    def atoms(self, generator):
        return {"atoms_5": generator.standard_normal((4, 25, 25)).astype(np.float32)}

    def test_saved_arrays_are_read_back(self, tmp_path, atoms):
        save_dictionaries(str(tmp_path / "a.npz"), atoms)
        with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
            np.testing.assert_array_equal(arrays["atoms_5"], atoms["atoms_5"])

    def test_equal_atoms_give_equal_bytes_at_any_time(self, tmp_path, atoms, monkeypatch):
        save_dictionaries(tmp_path / "a.npz", atoms)
        monkeypatch.setattr(time, "time", lambda: 2e9)
        save_dictionaries(tmp_path / "b.npz", atoms)
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
        with zipfile.ZipFile(tmp_path / "a.npz") as archive:
            assert {entry.date_time[0] for entry in archive.infolist()} == {1980}

    def test_existing_file_is_kept_unless_overwriting_is_allowed(self, tmp_path, atoms):
        target = tmp_path / "a.npz"
        target.write_bytes(b"precious")
        with pytest.raises(OutputError, match=r"a\.npz exists already: give another path or allow"):
            save_dictionaries(target, atoms)
        assert target.read_bytes() == b"precious"
        save_dictionaries(target, atoms, overwrite=True)
        assert target.read_bytes() != b"precious"

    @pytest.mark.parametrize("target", ["missing/a.npz", "file/a.npz"])
    def test_target_that_cannot_be_written_is_named(self, tmp_path, atoms, target):
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(OutputError, match=r"a\.npz cannot be written \(.+\): a writable directory is needed"):
            save_dictionaries(tmp_path / target, atoms)

    def test_failure_while_writing_leaves_nothing_behind(self, tmp_path, atoms, monkeypatch):
        def fail(*_args, **_arrays):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(np, "savez", fail)
        with pytest.raises(OutputError, match="No space left on device"):
            save_dictionaries(tmp_path / "a.npz", atoms)
        assert list(tmp_path.iterdir()) == []

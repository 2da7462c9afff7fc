"""Show how well and how fast stacks are aligned, beside what OpenCV's registration of whole frames does when it is asked for the same.

Run as ``python benchmarks/alignment.py`` beside ``../shared``; some minutes. Tables, all or those named behind the command:
``generated`` stacks with known movements and different focus; ``tilted`` ones, seen in a perspective that changes, by model; ``real``
stacks, by what is left between neighbors; ``boards``, the real stacks taken at an angle, by model; stacks that are ``aligned`` already;
pairs of which one image is ``blurred``, by how many are wrong without a warning; the ``hints`` of all stacks; CPU time at 8 megapixels
(``speed``); ``exposure``.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np
from scipy import fft, ndimage

from qmcif_engine import make_focus_stack, read_image
from qmcif_engine.stack.alignment.estimation import estimate_transforms
from qmcif_engine.stack.alignment.suggestion import previews_for_alignment, suggest_alignment
from qmcif_engine.stack.alignment.transforms import TransformModel, Transforms, apply_matrix, as_matrix, frame_corners, lift_matrix
from qmcif_engine.stack.alignment.warping import align_stack
from qmcif_engine.stack.exposure import estimate_exposure
from qmcif_engine.stack.previews import choose_reduction, read_preview, read_previews, to_gray
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.stack.stack import Stack

STACKS = Path(__file__).parents[2] / "shared" / "data" / "stacks"
REAL = ("macro_focus_breathing", "scorpion_microscope_misaligned", "algae_microscope_5x20mpx", "pcb_7")
EQUAL_FOCUS = {"scorpion_microscope_misaligned": ((2, 12), (3, 12), (1, 11))}
"""Images that are no neighbors but show the same plane, 0-based: there the stack can be measured, between neighbors it hardly can."""

BOARDS = ("pcb_7", "pcb_10")
MOVING_MODELS = (TransformModel.TRANSLATION, TransformModel.SIMILARITY, TransformModel.AFFINE, TransformModel.HOMOGRAPHY)
ALIGNED = "aligned_32"
N_CASES = 30
CASE_SHAPE, CASE_N_IMAGES = (480, 640), 5
TIMED_SHAPE, TIMED_N_IMAGES = (2448, 3264), 6
MARGIN_PX = 64
LIBRARY_PX = 2**20

_WINDOW_PX = 128
_GRID = 24
_RANGE_PX = 2**20
_BAND = 0.12
"""Cycles a pixel that are looked at (standard deviation): above are noise and blocks of compression, and what defocus turns around."""

_SMALLEST_CONTRAST = 0.01
"""Standard deviation a window needs in both images, as a share of the image's range."""

_SMALLEST_RESPONSE = 0.25
"""Height of the peak, 1 for equal windows; unrelated ones reach 0.12, and those sharp in one image only hardly more."""


def main() -> None:
    """Print all tables, or those named on the command line."""
    tables = {
        "generated": show_generated,
        "tilted": show_tilted,
        "real": show_real,
        "boards": show_boards,
        "aligned": show_aligned,
        "blurred": show_blurred,
        "hints": show_hints,
        "speed": show_speed,
        "exposure": show_exposure,
    }
    for name in sys.argv[1:] or tables:
        tables[name]()


def make_moved_stack(
    seed: int, *, shape: tuple[int, int], n_images: int, flicker: float = 0.05, tilt: float = 0.0
) -> tuple[Stack, list[NDArray[np.float64]], list[float]]:
    """Return a focus stack whose images moved, the matrices from the scene to each image, and the gain of each image.

    Every image shifts by up to 8 px, turns by up to 0.3 degrees and grows by up to 1 % against the one before, most of the growth
    steadily, as lenses do. A tilt of 0.01 brings one end of the frame up to 1 % nearer than the other from image to image. The images are
    resampled by splines, which the method under test does not use.
    """
    generator = np.random.default_rng(seed)
    canvas = (shape[0] + 2 * MARGIN_PX, shape[1] + 2 * MARGIN_PX)
    scene = make_focus_stack(n_images=n_images, shape=canvas, seed=seed, dtype=np.float32, blur_px=4.0).images
    breathing = generator.uniform(-0.01, 0.01)
    matrix, matrices, gains, images = np.eye(3), [], [], []
    for number in range(n_images):
        if number:
            growth = 1 + breathing + generator.uniform(-0.001, 0.001)
            matrix = make_similarity(growth, generator.uniform(-0.005, 0.005), generator.uniform(-8, 8, 2), shape=shape) @ matrix
            if tilt:
                matrix = make_tilt(generator.uniform(-tilt, tilt, 2), shape=shape) @ matrix
        gains.append(1 + generator.uniform(-flicker, flicker))
        matrices.append(matrix)
        planes = take_samples(scene[number], np.linalg.inv(matrix), shape=shape) * 255 * gains[-1] + generator.normal(0, 1, (*shape, 3))
        images.append(np.clip(np.rint(planes), 0, 255).astype(np.uint8))
    return stack_arrays(images), matrices, gains


def make_similarity(growth: float, turn: float, shift: NDArray[np.float64], *, shape: tuple[int, int]) -> NDArray[np.float64]:
    center = np.array([(shape[1] - 1) / 2, (shape[0] - 1) / 2])
    matrix = np.eye(3)
    matrix[:2, :2] = growth * np.array([(np.cos(turn), -np.sin(turn)), (np.sin(turn), np.cos(turn))])
    matrix[:2, 2] = center + shift - matrix[:2, :2] @ center
    return matrix


def make_tilt(nearness: NDArray[np.float64], *, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return the homography about the center that brings the right and the lower end of the frame nearer by a share."""
    to_center = np.array([(1, 0, -(shape[1] - 1) / 2), (0, 1, -(shape[0] - 1) / 2), (0, 0, 1)])
    matrix = np.eye(3)
    matrix[2, :2] = -nearness / (shape[1], shape[0])
    matrix = np.linalg.inv(to_center) @ matrix @ to_center
    return matrix / matrix[2, 2]


def take_samples(image: NDArray[np.float32], matrix: NDArray[np.float64], *, shape: tuple[int, int]) -> NDArray[np.float64]:
    y, x = np.mgrid[: shape[0], : shape[1]].astype(float)
    distance, *places = (row[0] * x + row[1] * y + row[2] for row in matrix[::-1])
    places = [place / distance + MARGIN_PX for place in places]
    return np.stack([ndimage.map_coordinates(plane, places, order=3, mode="reflect") for plane in np.moveaxis(image, -1, 0)], axis=-1)


def align_by_library(stack: Stack, register: Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float64]]) -> Transforms:
    """Return transforms chained from what a library says of neighbors, on previews of a megapixel with normalized local contrast."""
    factor = choose_reduction(stack.image_shape, largest_px=LIBRARY_PX)
    previews = [normalize(to_gray(read_preview(stack, number, factor=factor))) for number in range(stack.n_images)]
    chain = [np.eye(3)]
    for first, second in pairwise(previews):
        chain.append(lift_matrix(register(first, second), factor) @ chain[-1])
    reference = stack.n_images // 2
    matrices = tuple(as_matrix(matrix @ np.linalg.inv(chain[reference])) for matrix in chain)
    return Transforms(matrices=matrices, model=TransformModel.SIMILARITY, image_shape=stack.image_shape[:2], reference=reference)


def normalize(gray: NDArray[np.float32]) -> NDArray[np.float32]:
    smooth = cv2.GaussianBlur(gray, (0, 0), 1)
    detail = smooth - cv2.GaussianBlur(smooth, (0, 0), 12)
    return detail / (np.sqrt(cv2.GaussianBlur(detail * detail, (0, 0), 12)) + 0.02 * np.ptp(gray))


def register_by_ecc(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the similarity nearest to the affine movement of the enhanced correlation coefficient, over three sizes."""
    matrix = np.eye(3)
    for factor in (4, 2, 1):
        pair = [cv2.resize(image, None, fx=1 / factor, fy=1 / factor, interpolation=cv2.INTER_AREA) for image in (first, second)]
        scaled = matrix[:2].astype(np.float32)
        scaled[:, 2] /= factor
        criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 60, 1e-6)
        try:
            _, scaled = cv2.findTransformECC(*pair, scaled, cv2.MOTION_AFFINE, criteria, None, 5)
        except cv2.error:
            continue
        matrix = np.eye(3)
        matrix[:2] = scaled
        matrix[:2, 2] *= factor
    return nearest_similarity(matrix, first.shape)


def nearest_similarity(matrix: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.float64]:
    center = np.array([(shape[1] - 1) / 2, (shape[0] - 1) / 2])
    moved = matrix[:2, :2] @ center + matrix[:2, 2]
    growth, turn = (matrix[0, 0] + matrix[1, 1]) / 2, (matrix[1, 0] - matrix[0, 1]) / 2
    nearest = np.eye(3)
    nearest[:2, :2] = [(growth, -turn), (turn, growth)]
    nearest[:2, 2] = moved - nearest[:2, :2] @ center
    return nearest


METHODS: dict[str, Callable[[Stack], Transforms]] = {
    "ours": lambda stack: estimate_transforms(stack, TransformModel.SIMILARITY),
    "OpenCV ECC": lambda stack: align_by_library(stack, register_by_ecc),
}


def show_generated() -> None:
    """Print the corner error over all images of all cases, against the movements the stacks were made with."""
    errors: dict[str, list[float]] = {name: [] for name in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    for seed in range(N_CASES):
        stack, truth, _ = make_moved_stack(seed, shape=CASE_SHAPE, n_images=CASE_N_IMAGES)
        for name, method in METHODS.items():
            start = time.process_time()
            transforms = method(stack)
            seconds[name] += time.process_time() - start
            errors[name] += find_corner_errors(transforms, truth)
    print(f"\n{N_CASES} generated stacks of {CASE_N_IMAGES} images, {CASE_SHAPE[1]} x {CASE_SHAPE[0]} px: corner error in px")
    print(f"{'':12}{'median':>8}{'worst':>8}{'CPU s/frame':>13}")
    for name, found in errors.items():
        print(f"{name:12}{np.median(found):8.3f}{max(found):8.3f}{seconds[name] / N_CASES / CASE_N_IMAGES:13.2f}")


def show_tilted() -> None:
    """Print the corner error of every model on stacks seen in a changing perspective, and what a homography costs where there is none."""
    print(
        f"\n{N_CASES} generated stacks of {CASE_N_IMAGES} images that also tilt: corner error in px (median, worst; images with a warning)"
    )
    for tilt in (0.0, 0.01, 0.03):
        errors: dict[TransformModel, list[float]] = {model: [] for model in MOVING_MODELS[1:]}
        n_warned = dict.fromkeys(errors, 0)
        for seed in range(N_CASES):
            stack, truth, _ = make_moved_stack(seed, shape=CASE_SHAPE, n_images=CASE_N_IMAGES, tilt=tilt)
            for model in errors:
                transforms = estimate_transforms(stack, model)
                errors[model] += find_corner_errors(transforms, truth)
                n_warned[model] += len(transforms.warnings)
        found = (f"{model.value} {np.median(errors[model]):.3f} {max(errors[model]):.3f} ({n_warned[model]})" for model in errors)
        print(f"tilt up to {tilt:4.0%} from image to image: {', '.join(found)}")


def find_corner_errors(transforms: Transforms, truth: list[NDArray[np.float64]]) -> list[float]:
    """Return the largest error of the four corners for every image but the reference."""
    corners = frame_corners(transforms.image_shape)
    to_scene = np.linalg.inv(truth[transforms.reference])
    return [
        float(np.hypot(*(apply_matrix(transforms.matrix(number), corners) - apply_matrix(matrix @ to_scene, corners)).T).max())
        for number, matrix in enumerate(truth)
        if number != transforms.reference
    ]


def read_stack(name: str) -> Stack:
    paths = sorted(path for path in (STACKS / name).iterdir() if path.suffix.lower() in (".jpg", ".png", ".tif"))
    return stack_arrays([read_image(path).samples for path in paths], names=[path.name for path in paths])


def show_real() -> None:
    """Print what is left between neighbors, over windows with a clear peak, and how many these are."""
    print("\nreal stacks: median shift between neighboring images in px (windows measured, pairs with such windows),")
    print("and at the end of a line between images of equal focus that are no neighbors")
    for name in REAL:
        stack = read_stack(name)
        print(f"{name}, {stack.n_images} images, {stack.image_shape[1]} x {stack.image_shape[0]} px")
        print(f"  {'as it is':12}{describe_residuals(stack)}{describe_equal_focus(stack, name)}")
        for method_name, method in METHODS.items():
            start = time.process_time()
            transforms = method(stack)
            seconds = (time.process_time() - start) / stack.n_images
            aligned = align_stack(stack, transforms)
            print(f"  {method_name:12}{describe_residuals(aligned)}{seconds:8.2f} CPU s/frame{describe_equal_focus(aligned, name)}")
            for warning in transforms.warnings:
                print(f"      {warning.message}")


def show_boards() -> None:
    """Print what every model leaves between neighbors of the stacks taken at an angle."""
    print("\nstacks taken at an angle: median shift between neighboring images in px (windows measured, pairs with such windows)")
    for name in BOARDS:
        stack = read_stack(name)
        print(f"{name}, {stack.n_images} images, {stack.image_shape[1]} x {stack.image_shape[0]} px")
        for model in MOVING_MODELS:
            start = time.process_time()
            transforms = estimate_transforms(stack, model)
            seconds = (time.process_time() - start) / stack.n_images
            print(
                f"  {model.value:12}{describe_residuals(align_stack(stack, transforms))}{seconds:8.2f} CPU s/frame, "
                f"{len(transforms.warnings)} warnings"
            )


def describe_residuals(stack: Stack) -> str:
    found = residual_shifts(stack)
    return f"{np.median(found.length_px):6.2f}  ({len(found.first)}, {len(np.unique(found.first))} of {stack.n_images - 1})"


def describe_equal_focus(stack: Stack, name: str) -> str:
    whole = Window.whole(stack.image_shape)
    lengths = [
        residual_shifts(stack_arrays([stack.read(number, whole) for number in pair])).length_px for pair in EQUAL_FOCUS.get(name, ())
    ]
    return "".join(f"{np.median(length):8.2f} ({len(length)})" for length in lengths)


def show_aligned() -> None:
    """Print how far stacks that need no alignment are moved."""
    print("\naligned stacks: largest movement of a corner in px")
    generated = stack_arrays(list(make_focus_stack(n_images=5, shape=CASE_SHAPE, blur_px=4.0).images))
    stacks = {"generated": generated} | ({ALIGNED: read_stack(ALIGNED)} if (STACKS / ALIGNED).exists() else {})
    for name, stack in stacks.items():
        for model in MOVING_MODELS:
            print(f"{name:12}{model.value:12}{estimate_transforms(stack, model).largest_movement_px():8.3f}")


def show_blurred() -> None:
    """Print how many pairs are wrong by more than a pixel, and how many of these carry no warning, by the blur of one image."""
    paths = sorted(path for name in ("lytro", "mffw", "mfi_whu", "nyu_d") for path in (STACKS.parent / name).glob("*_a.*"))[::3]
    print(f"\n{len(paths)} pictures, moved by up to 10 px and 1 %, the second image blurred: wrong by > 1 px, of these without a warning,")
    print("right with a warning")
    for blur_px in (0, 4, 8, 12, 16):
        generator = np.random.default_rng(99)
        found = []
        for path in paths:
            gray = to_gray(read_image(path).samples.reshape(*read_image(path).samples.shape[:2], -1).astype(np.float32))
            shape = gray.shape[0] - 2 * MARGIN_PX, gray.shape[1] - 2 * MARGIN_PX
            growth, turn = 1 + generator.uniform(-0.01, 0.01), generator.uniform(-0.005, 0.005)
            matrix = make_similarity(growth, turn, generator.uniform(-10, 10, 2), shape=shape)
            blurred = ndimage.convolve(gray, make_disc(blur_px)) if blur_px else gray
            planes = [
                take_samples(image[..., np.newaxis], np.linalg.inv(movement), shape=shape)[..., 0] + generator.normal(0, 2, shape)
                for image, movement in ((gray, np.eye(3)), (blurred, matrix))
            ]
            transforms = estimate_transforms(
                stack_arrays([np.clip(np.rint(plane), 0, 255).astype(np.uint8) for plane in planes]), TransformModel.SIMILARITY, reference=0
            )
            found.append((find_corner_errors(transforms, [np.eye(3), matrix])[0] > 1, bool(transforms.warnings)))
        wrong, warned = np.array(found).T
        print(f"blur {blur_px:2} px: {wrong.sum()}, {(wrong & ~warned).sum()}, {(~wrong & warned).sum()} of {len(paths)}")


def make_disc(radius_px: float) -> NDArray[np.float64]:
    y, x = np.mgrid[-radius_px - 1 : radius_px + 2, -radius_px - 1 : radius_px + 2]
    disc = np.clip(radius_px + 0.5 - np.hypot(y, x), 0, 1)
    return disc / disc.sum()


def show_hints() -> None:
    """Print what the hint says of every stack, and what it costs, its reading included."""
    print("\nhints: CPU s, message")
    for folder in sorted(path for path in STACKS.iterdir() if path.is_dir()):
        stack = read_stack(folder.name)
        start = time.process_time()
        suggestion = suggest_alignment(read_previews(stack, previews_for_alignment(stack)))
        seconds = time.process_time() - start
        print(f"{folder.name:32}{seconds:6.2f}  {'' if suggestion is None else suggestion.message}")


def show_speed() -> None:
    """Print CPU seconds per frame for estimating and for reading everything aligned; both grow in proportion to the number of frames."""
    stack, truth, _ = make_moved_stack(0, shape=TIMED_SHAPE, n_images=TIMED_N_IMAGES)
    start = time.process_time()
    transforms = estimate_transforms(stack, TransformModel.SIMILARITY)
    seconds = time.process_time() - start
    aligned = align_stack(stack, transforms)
    aligned.read(0, Window(0, 0, 1, 1))  # compiles, once on a machine
    start = time.process_time()
    for number in range(stack.n_images):
        aligned.read(number, Window.whole(stack.image_shape))
    reading = time.process_time() - start
    print(f"\n{TIMED_N_IMAGES} generated images of {TIMED_SHAPE[0] * TIMED_SHAPE[1] / 1e6:.1f} megapixels, CPU s/frame:")
    print(f"estimate {seconds / TIMED_N_IMAGES:.2f}, resample {reading / TIMED_N_IMAGES:.2f}")
    print(f"corner error there: median {np.median(find_corner_errors(transforms, truth)):.3f} px")


def show_exposure() -> None:
    """Print how well the gains of generated stacks with flicker are found."""
    errors = []
    for seed in range(N_CASES // 3):
        stack, _, gains = make_moved_stack(seed, shape=CASE_SHAPE, n_images=CASE_N_IMAGES, flicker=0.1)
        correction = estimate_exposure(stack)
        wanted = gains[correction.reference] / np.array(gains)
        errors += list(np.abs(np.array(correction.gains) / wanted[:, np.newaxis] - 1).ravel())
    print(f"\nexposure of {N_CASES // 3} generated stacks that also moved: error of gains")
    print(f"median {np.median(errors):.2%}, worst {max(errors):.2%}")


class ResidualShifts(NamedTuple):
    """What n windows say.

    Attributes
    ----------
    first : ndarray of int, shape (n,)
        The first image of the pair, 0-based.
    position : ndarray of float64, shape (n, 2)
        Center of the window, x and y.
    shift : ndarray of float64, shape (n, 2)
        How far right and down the second image lies of the first.
    """

    first: NDArray[np.int64]
    position: NDArray[np.float64]
    shift: NDArray[np.float64]

    @property
    def length_px(self) -> NDArray[np.float64]:
        """Length of each shift, shape (n,)."""
        return np.asarray(np.hypot(self.shift[:, 0], self.shift[:, 1]))


def residual_shifts(stack: Stack) -> ResidualShifts:
    """Measure how far windows with texture in both of two neighboring images lie apart.

    Windows of 128 px lie on a grid over the frame, at full resolution; in smaller frames they overlap. One counts where it has contrast
    and lies inside both images and where the phase correlation has a clear peak. A window that is sharp in one image only has no clear
    peak: where it lies in the other cannot be said to a fraction of a pixel.

    Parameters
    ----------
    stack : Stack
        Aligned or not. Where it tells which pixels are valid, windows with others are left out.
    """
    side = min(_WINDOW_PX, *stack.image_shape[:2])
    # windows do not fit to themselves at their borders, which would correlate like edges; without its zeros
    taper = np.outer(*[np.hanning(side + 2)[1:-1]] * 2)
    floor = _SMALLEST_CONTRAST * _find_range(stack)
    found = []
    for window in _lay_grid(stack.image_shape, side):
        center = (window.left + (side - 1) / 2, window.top + (side - 1) / 2)
        previous: FloatArray | None = None
        for number in range(stack.n_images):
            gray = _read_gray(stack, number, window=window, floor=floor)
            shift = None if previous is None or gray is None else correlate_phases(previous * taper, gray * taper)
            if shift is not None:
                found.append((number - 1, *center, *shift))
            previous = gray
    columns = np.array(found, np.float64).reshape(-1, 5)
    return ResidualShifts(columns[:, 0].astype(np.int64), columns[:, 1:3], columns[:, 3:])


def correlate_phases(first: FloatArray, second: FloatArray) -> tuple[float, float] | None:
    """Return how far right and down a window lies of another, shape (h, w) each; None where the peak is not clear."""
    shape = first.shape
    cross = fft.rfft2(second) * np.conj(fft.rfft2(first))
    rows, columns = fft.fftfreq(shape[0])[:, np.newaxis], fft.rfftfreq(shape[1])
    band = np.exp(-(rows**2 + columns**2) / (2 * _BAND**2))
    # without the mean, which says nothing about where a window lies
    band[0, 0] = 0
    modulus = np.abs(cross)
    phases = band * cross / np.maximum(modulus, np.finfo(np.float64).eps * modulus.max() + np.finfo(np.float64).tiny)
    # such that two equal windows give a peak of 1
    surface = fft.irfft2(phases, s=shape) / fft.irfft2(band, s=shape)[0, 0]
    row, column = (int(index) for index in np.unravel_index(int(surface.argmax()), shape))
    if surface[row, column] < _SMALLEST_RESPONSE:
        return None
    down = row + _find_vertex(surface[[row - 1, row, (row + 1) % shape[0]], column])
    right = column + _find_vertex(surface[row, [column - 1, column, (column + 1) % shape[1]]])
    # the transform is periodic: more than half a window to the right is a shift to the left
    return (right + shape[1] / 2) % shape[1] - shape[1] / 2, (down + shape[0] / 2) % shape[0] - shape[0] / 2


def _find_vertex(values: FloatArray) -> float:
    """Return where a parabola through three values is highest, from the middle one."""
    before, peak, after = (float(value) for value in values)
    curvature = before - 2 * peak + after
    return 0.0 if curvature == 0 else 0.5 * (before - after) / curvature


def _lay_grid(image_shape: tuple[int, ...], side: int) -> list[Window]:
    tops, lefts = (np.unique(np.linspace(0, length - side, _GRID).round().astype(int)) for length in image_shape[:2])
    return [Window(int(top), int(left), int(top) + side, int(left) + side) for top in tops for left in lefts]


def _find_range(stack: Stack) -> float:
    gray = to_gray(read_preview(stack, stack.n_images // 2, factor=choose_reduction(stack.image_shape, largest_px=_RANGE_PX)))
    low, high = np.percentile(gray, (0.5, 99.5))
    return float(high - low)


def _read_gray(stack: Stack, number: int, *, window: Window, floor: float) -> FloatArray | None:
    """Return one window around its mean, or None where it has no texture or does not lie inside the image."""
    if stack.has_validity and not stack.valid(number, window).all():
        return None
    samples = stack.read(number, window)
    gray = to_gray(samples.reshape(*window.shape, -1).astype(np.float32)).astype(np.float64)
    gray -= gray.mean()
    return gray if gray.std() >= max(floor, np.finfo(np.float32).tiny) else None


if __name__ == "__main__":
    main()

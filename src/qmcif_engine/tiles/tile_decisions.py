"""Decisions on the window of a tile, and its core part by part: what lies around a part is drawn only as far as it matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.cleanup.dark_border import DarkBorders, find_dark_borders, sight_across
from qmcif_engine.cleanup.positions import interpolate_position
from qmcif_engine.method.focus import Borders
from qmcif_engine.method.fusion import Blend, crop_blend
from qmcif_engine.stack.samples import PlaneStack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.cell_stages import decide_cells, measure_cells
from qmcif_engine.tiles.stages import Geometry, decide, draw_cells, find_focus_maps, measure_focus
from qmcif_engine.tiles.tile_parts import DRAWING_MARGIN_PX, cut_parts, decides_on_cells, in_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qmcif_engine.arrays import BoolArray, FloatArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.stack.noise import NoiseAdaptation
    from qmcif_engine.stack.samples import FocusRanges
    from qmcif_engine.tiles.stages import FocusLevels, FocusMaps, TileResult
    from qmcif_engine.tiles.window_images import WindowImages


@dataclass(frozen=True, slots=True)
class DecidedPart:
    """A part of the core of a tile, with windows counted from the corner of the padded tile.

    Attributes
    ----------
    window, seen : Window
        The part, and what was looked at around it.
    blend : Blend
    confidence : ndarray of float32, shape (h, w)
    position : ndarray of float32, shape (h, w), or None
    """

    window: Window
    seen: Window
    blend: Blend
    confidence: FloatArray
    position: FloatArray | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TileDecisions:
    """Everything the decisions on one tile depend on.

    Attributes
    ----------
    config : FusionConfig
    images : WindowImages
        What is decided on.
    focus_range : FocusRange, or tuple of one per channel
    borders : Borders
        The sides where the window ends because the image does.
    adaptation : NoiseAdaptation
    geometry : Geometry
    with_position : bool
    check_cancelled, report_image : callable
    """

    config: FusionConfig
    images: WindowImages
    focus_range: FocusRanges
    borders: Borders
    adaptation: NoiseAdaptation
    geometry: Geometry
    with_position: bool
    check_cancelled: Callable[[], None]
    report_image: Callable[[], None]

    def decide(self, core: Window, by_pixel: FocusLevels | None) -> Iterator[DecidedPart]:
        """Yield the decided parts of the core; focus levels of pixels are needed where decisions are not made cell by cell."""
        if by_pixel is not None and not decides_on_cells(self.config):
            yield self._decide_pixels(core, by_pixel)
        else:
            yield from self._decide_cells(core)

    def measure_pixels(self, *, keep_layers: bool) -> FocusLevels:
        """Measure the focus around every pixel."""
        ends = self.images.find_frame_ends(self.config.decision)
        return measure_focus(
            self._planes(),
            self.config,
            geometry=self.geometry,
            borders=self.borders,
            adaptation=self.adaptation,
            validity=self.images.validity if ends is None else ends.choosable,
            keep_layers=keep_layers,
            check_cancelled=self.check_cancelled,
            # an image counts once: when decisions need nothing more of it
            report_image=(lambda: None) if decides_on_cells(self.config) else self.report_image,
        )

    def map_focus(self, by_pixel: FocusLevels) -> FocusMaps:
        """Return the focus maps of both scales."""
        ends = self.images.find_frame_ends(self.config.decision)
        return find_focus_maps(
            self._planes(),
            by_pixel,
            geometry=self.geometry,
            config=self.config,
            borders=self.borders,
            adaptation=self.adaptation,
            validity=self.images.validity if ends is None else ends.choosable,
        )

    def _planes(self, window: Window | None = None) -> PlaneStack:
        representation = self.config.focus.representation
        if window is None:
            return PlaneStack(self.images, self.focus_range, representation=representation, read=self.images.read)
        return PlaneStack(self.images.cropped(window), self.focus_range, representation=representation)

    def _decide_pixels(self, core: Window, by_pixel: FocusLevels) -> DecidedPart:
        self.check_cancelled()
        ends = self.images.find_frame_ends(self.config.decision)
        result = decide(
            self._planes(),
            by_pixel,
            geometry=self.geometry,
            config=self.config,
            borders=self.borders,
            adaptation=self.adaptation,
            validity=self.images.validity if ends is None else ends.choosable,
            ends=ends,
        )
        whole = Window.whole(self.images.shape)
        position = interpolate_position(by_pixel.detail, result.blend.source_index) if self.with_position else None
        return _cut_part(result, position, window=core, seen=whole)

    def _decide_cells(self, core: Window) -> Iterator[DecidedPart]:
        shape, planes = self.images.shape, self._planes()
        ends = self.images.find_frame_ends(self.config.decision)
        validity = self.images.validity if ends is None else ends.choosable
        # aligned images end inside the fused image, and have no dark borders to look for
        dark_borders = self._find_dark_borders() if validity is None else None
        choosable = validity if dark_borders is None else dark_borders.validity
        levels = measure_cells(
            planes,
            shape,
            self.config,
            detail_patch_px=self.geometry.detail_patch_px,
            borders=self.borders,
            adaptation=self.adaptation,
            # of aligned images missing pixels have no level at all; pixels of dark borders are measured, and only not chosen
            validity=validity,
            choosable=choosable,
            check_cancelled=self.check_cancelled,
            report_image=self.report_image,
        )
        levels = levels.preferred(self.config.decision).without(choosable)
        self.check_cancelled()
        decided = decide_cells(
            planes, shape, levels, detail_patch_px=self.geometry.detail_patch_px, config=self.config, adaptation=self.adaptation
        )
        for window in cut_parts(core, self.config):
            self.check_cancelled()
            seen = window.grown(DRAWING_MARGIN_PX, shape)
            ends = self.images.find_frame_ends(self.config.decision, seen)
            near_levels = levels.cropped(in_cells(seen))
            result = draw_cells(
                self._planes(seen),
                decided.cropped(in_cells(seen)),
                near_levels,
                config=self.config,
                adaptation=self.adaptation,
                validity=self._validity_of(seen, dark_borders) if ends is None else ends.choosable,
                ends=ends,
            )
            position = None
            if self.with_position:
                position = interpolate_position(near_levels.spread_detail(seen.shape), result.blend.source_index)
            yield _cut_part(result, position, window=window, seen=seen)

    def _validity_of(self, window: Window, dark_borders: DarkBorders | None) -> Callable[[int], BoolArray] | None:
        """Return what tells which pixels of a window an image has."""
        if dark_borders is not None:
            return lambda number: dark_borders.validity(number)[window.slices]
        return self.images.validity_of(window)

    def _find_dark_borders(self) -> DarkBorders | None:
        """Look for dark borders along the borders of the image, of which only strips are embedded."""
        height, width = self.images.shape
        depth_px = self.config.focus.dark_border_px
        if depth_px == 0 or min(height, width) < sight_across(depth_px):
            return None
        sight = sight_across(depth_px)
        strips = (
            Window(0, 0, sight, width),
            Window(0, 0, height, sight),
            Window(height - sight, 0, height, width),
            Window(0, width - sight, height, width),
        )
        found: list[dict[Any, BoolArray]] = [{} for _ in range(len(self.images))]
        # strip by strip, each with the one side that is looked at, so that no image is embedded whole
        for number, (window, is_border) in enumerate(zip(strips, self.borders, strict=True)):
            if is_border:
                side = Borders(*(other == number for other in range(len(strips))))
                of_side = find_dark_borders(self._planes(window), depth_px=depth_px, borders=side)
                for of_image, missing in zip(found, of_side.strips if of_side is not None else [], strict=of_side is not None):
                    of_image.update(missing)
        return DarkBorders((height, width), tuple(found)) if any(found) else None


def _cut_part(result: TileResult, position: FloatArray | None, *, window: Window, seen: Window) -> DecidedPart:
    inner = window.relative_to(seen)
    return DecidedPart(
        window,
        seen,
        crop_blend(result.blend, inner),
        np.ascontiguousarray(result.confidence[inner.slices]),
        None if position is None else np.ascontiguousarray(position[inner.slices]),
    )

"""Settings of earlier versions: those that were renamed are read by their former name, those that are gone are named with what to use."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

from qmcif_engine.errors import InvalidConfigError

RENAMED = {
    "dark_frame_px": "dark_border_px",
    "consistency": "smoothness",
    "adapts_to_noise": "noise",
    "blend_radius_px": "blend_px",
}
"""Former names of settings, still read: settings files outlive a version."""

FORMER_SECTIONS = ("decomposition", "focus", "refinement")
"""Sections of earlier versions; their settings are found by name."""

_SMOOTHER = "outlines and plain areas follow from one energy now: smoothness is the setting for both"
_EVIDENCE = "evidence has two fixed scales now: effort=fast uses one"
_PATCHES = "the rule of the paper has no such limits: set detail_patch_px to a side under rule=paper"

REMOVED = {
    "penalty_cap": "it was never reached: lower penalty_growth under rule=paper",
    "smallest_detail_patch_px": _PATCHES,
    "largest_detail_patch_px": _PATCHES,
    "blend_edge_contrast": "depth edges are blended over blend_px: set that",
    "aggregation": "rule=paper averages detail patches, as published; rule=energy has none",
    "evidence_scales": _EVIDENCE,
    "evidence_decay": _EVIDENCE,
    "border_px": "the image border needs no treatment of its own: leave it out",
    "follow_reach_px": _SMOOTHER,
    "edge_band_px": "effort=fast leaves out the edge test: use that",
    "edge_inertia": _SMOOTHER,
    "edge_stiffness": _SMOOTHER,
}
"""Settings that are gone, with what to use instead."""


def refuse_removed(key: str) -> None:
    """Refuse a setting that is gone, with what to use instead."""
    name = key.rpartition(".")[2]
    if name in REMOVED:
        msg = f"setting {name!r} is gone; {REMOVED[name]}"
        raise InvalidConfigError(msg)


def read_renamed(key: str, value: Any) -> tuple[str, Any]:  # noqa: ANN401 - any settings value
    """Return a setting by its present name, with a warning where it was given by its former one."""
    former = key.rpartition(".")[2]
    if former not in RENAMED:
        return key, value
    # stacklevel: whoever called `FusionConfig.replaced` or `parse_assignment`
    warnings.warn(f"setting {former} is called {RENAMED[former]} now: change the name", FutureWarning, stacklevel=3)
    return _translated(former, value)


def _translated(former: str, value: Any) -> tuple[str, Any]:  # noqa: ANN401 - any settings value
    if former == "adapts_to_noise":
        value = {"true": "auto", "yes": "auto", "1": "auto", "false": "off", "no": "off", "0": "off"}.get(str(value).lower(), value)
    return RENAMED[former], value


def flatten_sections(values: Mapping[str, Any], sections: Collection[str], *, known: Collection[str]) -> dict[str, Any]:
    """Return settings of nested sections by their present names, with one warning for former names and one for settings that are gone."""
    rows: dict[str, Any] = {}
    renamed, removed = [], []
    for section, content in values.items():
        _check_section(section, content, sections)
        for name, value in content.items():
            if name in REMOVED:
                removed.append(name)
            elif name in RENAMED:
                renamed.append(f"{name} is {RENAMED[name]}")
                rows |= [_translated(name, value)]
            elif section in FORMER_SECTIONS and name in known:
                renamed.append(f"[{section}] {name} is found by its name")
                rows[name] = value
            else:
                rows[f"{section}.{name}"] = value
    # stacklevel: whoever called `FusionConfig.from_toml` or `from_dict`
    if renamed:
        msg = f"settings of an earlier version were read by their former names ({', '.join(renamed)}): write them anew"
        warnings.warn(msg, FutureWarning, stacklevel=4)
    if removed:
        msg = f"settings of an earlier version are gone and were ignored ({', '.join(removed)}): leave them out"
        warnings.warn(msg, FutureWarning, stacklevel=4)
    return rows


def _check_section(section: str, content: object, sections: Collection[str]) -> None:
    if not isinstance(content, dict):
        msg = f"setting {section!r} stands outside a section; one of the tables {', '.join(sections)} is needed: move it into one"
        raise InvalidConfigError(msg)
    if section not in (*sections, *FORMER_SECTIONS):
        msg = f"section {section!r} is not known; the sections are: {', '.join(sections)}: correct its name"
        raise InvalidConfigError(msg)

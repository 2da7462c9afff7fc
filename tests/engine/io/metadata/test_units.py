from __future__ import annotations

import pytest

from qmcif_engine.io.metadata.units import convert_length, parse_length, parse_unit


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("µm", "micrometer"),
        ("μm", "micrometer"),
        ("\\u00B5m", "micrometer"),
        ("micron", "micrometer"),
        ("Micrometer", "micrometer"),
        (" nm ", "nanometer"),
        ("Å", "angstrom"),
        ("inch", "inch"),
        ("pixel", None),
        ("second", None),
        ("", None),
        (3, None),
        (None, None),
    ],
)
def test_units_of_length_are_known_however_they_are_spelled(spelling, name):
    assert parse_unit(spelling) == name


def test_lengths_are_converted():
    assert convert_length(250.0, "nanometer", to="micrometer") == pytest.approx(0.25)
    assert convert_length(0.1, "micrometer", to="micrometer") == 0.1


@pytest.mark.parametrize(
    ("text", "length"), [("0.5", 0.5), (2, 2.0), ("0", None), ("-1", None), ("nan", None), ("inf", None), ("x", None), ([], None)]
)
def test_only_finite_numbers_above_zero_are_lengths(text, length):
    assert parse_length(text) == length

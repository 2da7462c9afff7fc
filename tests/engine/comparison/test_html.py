"""The page stands alone, is well formed, shows names from outside as text, and enlarges where the images differ most."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from qmcif_engine.comparison.datasets import find_dataset
from qmcif_engine.comparison.html import INDEX_COLORS, Place, begin_axis, draw_bars, encode_data_uri, find_places, head_symbol, write_html
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.tables import PUBLISHED_SETS, Origin, TableRow, mark_table
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import write_image
from tests.scenes import write_set

OURS = Method(name="default", settings=FusionConfig())
HOSTILE = "<script>alert(1)</script>\"'><img src=http://evil/x onerror=y>&"
WITHOUT_END = {"br", "img", "link", "meta"}


class Page(HTMLParser):
    """Check the nesting of tags and collect what a reader sees."""

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs: list[tuple[str, str | None]]):
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs: list[tuple[str, str | None]]):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def count(self, tag, kind: str | None = None):
        found = [attributes.get("class") or "" for name, attributes in self.tags if name == tag]
        return len(found) if kind is None else sum(kind in classes.split() for classes in found)


def draw(comparison, progress=lambda done, total: None):
    return write_html(comparison, progress=progress)


def copy_of(dataset, name="copy"):
    return Method(name=name, images={image_set.name: image_set.sources[0] for image_set in dataset.sets})


def test_the_page_needs_no_other_file_and_no_host(dataset, compare):
    text = draw(compare(dataset, OURS, copy_of(dataset), published=PUBLISHED_SETS["lytro"]))
    page = Page(text)
    sources = [attributes["src"] for tag, attributes in page.tags if tag == "img"]

    assert not re.search(r"http|url\(|@import", text)
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    assert sources
    assert all(source.startswith("data:image/jpeg;base64,") for source in sources)
    assert not any(name in attributes for _, attributes in page.tags for name in ("href", "srcset", "data", "action"))


def test_every_set_has_its_images_crops_and_rows_and_every_figure_its_bars(dataset, compare):
    comparison = compare(dataset, OURS, copy_of(dataset), published=PUBLISHED_SETS["mfi_whu"])
    steps = []
    text = draw(comparison, progress=lambda done, total: steps.append((done, total)))
    page = Page(text)

    assert steps == [(1, 2), (2, 2)]
    assert page.count("section") == 2
    assert page.count("div", "thumb") == 2 * (2 + 1 + 2 + 1)
    assert page.count("figure", "crop") >= 2 * (2 + 1 + 2)
    assert page.count("div", "box") * 5 == page.count("figure", "crop") * 2
    assert "Where the methods differ most" in page.texts
    assert page.count("div", "bars") == 10
    assert [page.count("tr", kind) for kind in ("ours", "other", "published", "first-published")] == [1, 1, 12, 1]
    assert page.texts.count("published") == 12
    assert page.texts.count("measured here") == 2
    assert any("complete mfi_whu set of 30 pairs" in text for text in page.texts)
    for mark in ("best", "second"):
        expected = sum(value == mark for row in comparison.table.rows for value in row.marks.values())
        assert len(re.findall(rf'<td class="{mark}">', text)) == expected > 0


def test_hostile_names_of_methods_sets_and_folders_are_shown_as_text(tmp_path, compare):
    folder = tmp_path / "<b>data&"
    folder.mkdir()
    write_set(folder, "<i>'x\"", has_truth=False)
    dataset = find_dataset(folder)
    page = Page(draw(compare(dataset, OURS, copy_of(dataset, HOSTILE))))

    assert {"<i>'x\"", "<b>data&: comparison of fusion methods", HOSTILE} <= set(page.texts)
    assert "script" not in {tag for tag, _ in page.tags}
    assert not any("onerror" in attributes for _, attributes in page.tags)
    assert HOSTILE in [attributes.get("alt") for tag, attributes in page.tags if tag == "img"]


def test_what_is_compared_depends_on_what_there_is(dataset, tmp_path, compare):
    alone = Page(draw(compare(dataset, OURS)))
    equal = Page(draw(compare(dataset, copy_of(dataset, "input 1"), copy_of(dataset, "truth"), name="equal")))
    (tmp_path / "plain").mkdir()
    write_set(tmp_path / "plain", "01", n_images=8, has_truth=False)
    for path in (tmp_path / "plain").iterdir():  # gray images are shown too
        write_image(path, np.ascontiguousarray(read_image(path).samples[..., 1]), overwrite=True)
    plain = Page(draw(compare(find_dataset(tmp_path / "plain"), OURS, name="other")))

    assert {"Where the image differs most from the truth", "Bars, one per set"} <= set(alone.texts)
    assert alone.count("td", "best") == 0
    assert equal.texts.count("The images are equal everywhere; nothing is enlarged") == 2
    assert (equal.count("figure", "crop"), equal.count("div", "thumb")) == (0, 2 * (2 + 1 + 2))
    assert {"Where the inputs differ most", "2 more inputs are not shown."} <= set(plain.texts)
    assert (plain.count("div", "thumb"), plain.count("span", "swatch")) == (6 + 2, 8)


def test_the_index_of_a_symbol_is_set_low():
    assert [head_symbol(symbol) for symbol in ("Q_MI", "PSNR_inner", "SSIM")] == ["Q<sub>MI</sub>", "PSNR inner", "SSIM"]


def test_sources_have_colors_of_their_own():
    assert len({tuple(color) for color in INDEX_COLORS.tolist()}) == len(INDEX_COLORS)


@pytest.mark.parametrize("shape", [(16, 24), (16, 24, 3)])
def test_a_data_uri_holds_the_image(shape):
    uri = encode_data_uri(np.full(shape, 77, np.uint8), quality=90)
    decoded = np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/jpeg;base64,"), validate=True))))

    assert decoded.shape == shape
    assert np.abs(decoded.astype(int) - 77).max() <= 1


@pytest.mark.parametrize("values", [[0.7, 0.75], [0.5], [0.0], [-1.0, 1.0], [43.2, 47.9], [1.1999, 1.2], [0.3, 0.3], [1e-6, 2e-6]])
def test_bars_begin_a_little_below_the_shortest_at_a_round_number(values):
    low = begin_axis(values)
    span = max(values) - min(values) or abs(max(values)) * 0.1 or 1

    assert min(values) - 0.25 * span <= low < min(values)
    assert len(f"{low:g}") <= 7


def test_bars_are_sorted_marked_and_proportional_to_their_distance_from_where_they_begin():
    hostile = "<script>alert('x')</script>\"&"
    figures = {"worst": 0.70, "best": 0.76, hostile: 0.73, "none": None}
    table = mark_table([TableRow(label=label, origin=Origin.MEASURED, means={"Q_G": value}) for label, value in figures.items()])
    root = ElementTree.fromstring(draw_bars(table, "Q_G"))
    spans = [(span.attrib["class"], span) for span in root.iter("span")]
    widths = [float(span.attrib["style"].removeprefix("width:").removesuffix("%")) for kind, span in spans if kind == "bar"]
    low = begin_axis([0.70, 0.73, 0.76])

    assert [span.text for kind, span in spans if kind == "label"] == ["best", hostile, "worst"]
    assert [(kind, span.text) for kind, span in spans if kind.startswith("value")] == [
        ("value best", "0.7600"),
        ("value second", "0.7300"),
        ("value ", "0.7000"),
    ]
    assert widths == pytest.approx([100 * (value - low) / (0.76 - low) for value in (0.76, 0.73, 0.70)], abs=0.01)
    assert f"begin at {low:g}" in [div.text for div in root.iter("div") if div.text][-1]
    assert f"{hostile} (measured here): 0.7300" in [div.attrib.get("title") for div in root.iter("div")]


def test_planted_differences_are_found_the_larger_first():
    first = np.full((300, 400, 3), 100, np.uint8)
    second = first.copy()
    second[200:230, 300:330, 1] = 160
    second[50:80, 60:90, 2] = 130
    larger, smaller = find_places([first, second])

    assert larger.row <= 200
    assert larger.row + larger.side_px >= 230
    assert larger.column <= 300
    assert larger.column + larger.side_px >= 330
    assert smaller.cut(second)[..., 2].max() == 130


def test_the_first_place_has_the_largest_spread_of_all_windows():
    generator = np.random.default_rng(3)
    images = [generator.integers(0, 256, (70, 90), dtype=np.uint8) for _ in range(3)]
    (place,) = find_places(images, n_places=1)
    inner = np.zeros((70, 90))
    inner[8:-8, 8:-8] = np.ptp(np.stack(images).astype(int), axis=0)[8:-8, 8:-8]
    side = place.side_px
    sums = {
        (row, column): inner[row : row + side, column : column + side].sum()
        for row in range(70 - side + 1)
        for column in range(90 - side + 1)
    }

    assert sums[place.row, place.column] == max(sums.values())


def test_places_do_not_overlap_and_lie_inside():
    generator = np.random.default_rng(4)
    images = [generator.integers(0, 256, (200, 260, 3), dtype=np.uint8) for _ in range(2)]
    first, second = find_places(images)

    assert max(abs(first.row - second.row), abs(first.column - second.column)) >= first.side_px
    for place in (first, second):
        assert place.cut(images[0]).shape == (place.side_px, place.side_px, 3)


def test_a_border_is_left_out_where_there_is_room():
    first = np.zeros((200, 200), np.uint8)
    second = first.copy()
    second[:8], second[100, 100] = 255, 1

    (place, *_) = find_places([first, second])
    assert place.cut(second).max() == 1


def test_equal_images_have_no_place():
    image = np.full((60, 60, 3), 9, np.uint8)

    assert find_places([image, image.copy()]) == []


@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (48, 48), (49, 120)])
def test_small_images_have_at_least_one_place(shape):
    places = find_places([np.zeros(shape, np.uint8), np.full(shape, 9, np.uint8)])

    assert places
    side = min(*shape, 48)
    assert all(place.cut(np.ones(shape, np.uint8)).shape == (side, side) for place in places)


def test_a_place_is_cut_by_row_and_column():
    image = np.arange(100, dtype=np.uint8).reshape(10, 10)

    np.testing.assert_array_equal(Place(2, 5, 2).cut(image), [[25, 26], [35, 36]])

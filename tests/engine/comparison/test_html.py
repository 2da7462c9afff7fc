"""The page stands alone, is well formed, and shows names from outside as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest

from qmcif_engine.comparison.datasets import find_dataset
from qmcif_engine.comparison.html import head_symbol, write_html
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.published import PUBLISHED_SETS
from qmcif_engine.comparison.record import fingerprint_inputs, open_record
from qmcif_engine.comparison.report import Comparison
from qmcif_engine.comparison.runner import score_dataset
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import write_image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qmcif_engine.comparison.datasets import Dataset
    from qmcif_engine.comparison.published import PublishedSet

OURS = Method(name="default", settings=FusionConfig())
HOSTILE = "<script>alert(1)</script>\"'><img src=http://evil/x onerror=y>&"
WITHOUT_END = {"br", "img", "link", "meta", "line", "rect"}


class Page(HTMLParser):
    """Check the nesting of tags and collect what a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def count(self, tag: str, kind: str | None = None) -> int:
        found = [attributes.get("class") or "" for name, attributes in self.tags if name == tag]
        return len(found) if kind is None else sum(kind in classes.split() for classes in found)


@pytest.fixture
def compare(tmp_path: Path) -> Callable[..., Comparison]:
    def run(dataset: Dataset, *methods: Method, published: PublishedSet | None = None) -> Comparison:
        folder = tmp_path / "report"
        folder.mkdir(exist_ok=True)
        scores = score_dataset(
            dataset,
            methods,
            folder=folder,
            record=open_record(folder, dataset, methods=methods, overwrite=False),
            fingerprints=fingerprint_inputs(dataset, methods, progress=lambda done, total: None),
            n_processes=1,
            progress=lambda done, total: None,
        )
        return Comparison(
            command="qmcif benchmark",
            dataset=dataset,
            methods=methods,
            changes={"default": ""},
            scores=scores,
            published=published,
            folder=folder,
        )

    return run


def draw(comparison: Comparison) -> str:
    return write_html(comparison, progress=lambda done, total: None)


def copy_of(dataset: Dataset, name: str = "copy") -> Method:
    return Method(name=name, images={image_set.name: image_set.sources[0] for image_set in dataset.sets})


def test_the_page_needs_no_other_file_and_no_host(dataset: Dataset, compare: Callable[..., Comparison]) -> None:
    text = draw(compare(dataset, OURS, copy_of(dataset), published=PUBLISHED_SETS["lytro"]))
    page = Page(text)

    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    sources = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert sources
    assert all(source is not None and source.startswith("data:image/jpeg;base64,") for source in sources)
    assert not any(name in attributes for _, attributes in page.tags for name in ("href", "srcset", "data", "action"))


def test_every_set_has_its_pictures_and_crops(dataset: Dataset, compare: Callable[..., Comparison]) -> None:
    page = Page(draw(compare(dataset, OURS, copy_of(dataset))))

    assert page.count("section") == 2
    assert page.count("div", "thumb") == 2 * (2 + 1 + 2 + 1)
    assert page.count("figure", "crop") % (2 + 1 + 2) == 0
    assert page.count("figure", "crop") >= 2 * (2 + 1 + 2)
    assert page.count("div", "box") * 5 == page.count("figure", "crop") * 2
    assert "Where the methods differ most" in page.texts
    assert page.count("svg") == 10


def test_published_rows_are_told_from_measured_ones(dataset: Dataset, compare: Callable[..., Comparison]) -> None:
    comparison = compare(dataset, OURS, copy_of(dataset), published=PUBLISHED_SETS["mfi_whu"])
    page = Page(draw(comparison))

    assert page.count("tr", "published") == 12
    assert page.count("tr", "first-published") == 1
    assert page.count("tr", "ours") == 1
    assert page.count("tr", "other") == 1
    assert page.texts.count("published") == 12
    assert page.texts.count("measured here") == 2
    assert any("complete mfi_whu set of 30 pairs" in text for text in page.texts)


def test_marks_are_those_of_the_table(dataset: Dataset, compare: Callable[..., Comparison]) -> None:
    comparison = compare(dataset, OURS, copy_of(dataset))
    text = draw(comparison)
    table = comparison.table

    for mark in ("best", "second"):
        expected = sum(value == mark for marks in table.marks for value in marks.values())
        assert len(re.findall(rf'<td class="{mark}">', text)) == expected > 0


def test_a_hostile_method_name_is_shown_as_text(dataset: Dataset, compare: Callable[..., Comparison]) -> None:
    page = Page(draw(compare(dataset, OURS, copy_of(dataset, HOSTILE))))

    assert "script" not in {tag for tag, _ in page.tags}
    assert HOSTILE in page.texts
    assert not any("onerror" in attributes for _, attributes in page.tags)
    assert HOSTILE in [attributes.get("alt") for tag, attributes in page.tags if tag == "img"]


def test_hostile_names_of_sets_and_folders_are_shown_as_text(
    tmp_path: Path, add_set: Callable[..., None], compare: Callable[..., Comparison]
) -> None:
    folder = tmp_path / "<b>data&"
    folder.mkdir()
    add_set(folder, "<i>'x\"", has_truth=False)
    page = Page(draw(compare(find_dataset(folder), OURS)))

    assert "<i>'x\"" in page.texts
    assert "<b>data&: comparison of fusion methods" in page.texts


def test_a_method_named_like_an_input_hides_nothing(dataset: Dataset, compare: Callable[..., Comparison]) -> None:
    page = Page(draw(compare(dataset, copy_of(dataset, "input 1"), copy_of(dataset, "truth"))))

    assert page.count("div", "thumb") == 2 * (2 + 1 + 2)


def test_one_method_is_compared_with_the_truth_set_by_set(dataset: Dataset, compare: Callable[..., Comparison]) -> None:
    page = Page(draw(compare(dataset, OURS)))

    assert "Where the image differs most from the truth" in page.texts
    assert "Bars, one per set" in page.texts
    assert page.count("td", "best") == 0


def test_one_method_without_a_truth_is_shown_where_it_had_to_choose(
    tmp_path: Path, add_set: Callable[..., None], compare: Callable[..., Comparison]
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    add_set(folder, "01", n_images=8, has_truth=False)
    page = Page(draw(compare(find_dataset(folder), OURS)))

    assert "Where the inputs differ most" in page.texts
    assert "2 more inputs are not shown." in page.texts
    assert page.count("div", "thumb") == 6 + 2
    assert page.count("span", "swatch") == 8


def test_equal_pictures_are_said_to_be_equal(dataset: Dataset, compare: Callable[..., Comparison]) -> None:
    page = Page(draw(compare(dataset, copy_of(dataset, "a"), copy_of(dataset, "b"))))

    assert page.texts.count("The images are equal everywhere; nothing is enlarged") == 2
    assert page.count("figure", "crop") == 0


def test_gray_pictures_are_shown_too(tmp_path: Path, add_set: Callable[..., None], compare: Callable[..., Comparison]) -> None:
    folder = tmp_path / "gray"
    folder.mkdir()
    add_set(folder, "01")
    for path in folder.iterdir():
        write_image(path, np.ascontiguousarray(read_image(path).samples[..., 1]), overwrite=True)

    assert Page(draw(compare(find_dataset(folder), OURS))).count("section") == 1


def test_progress_counts_the_sets(dataset: Dataset, compare: Callable[..., Comparison]) -> None:
    steps: list[tuple[int, int]] = []
    write_html(compare(dataset, OURS), progress=lambda done, total: steps.append((done, total)))

    assert steps == [(1, 2), (2, 2)]


def test_the_index_of_a_symbol_is_set_low() -> None:
    assert [head_symbol(symbol) for symbol in ("Q_MI", "PSNR_inner", "SSIM")] == ["Q<sub>MI</sub>", "PSNR inner", "SSIM"]

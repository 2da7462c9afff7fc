from __future__ import annotations

import pytest

from qmcif_engine.errors import ImageFileError, InvalidConfigError
from qmcif_engine.io.input.file_order import choose_frames, is_zarr_folder, list_files, natural_key


def touched(folder, *names):
    for name in names:
        (folder / name).touch()
    return folder


def test_numbers_in_names_are_sorted_as_numbers():
    names = ["img10.png", "img2.png", "IMG1.png", "img2a.png", "b.png", "img02.png", "10.png", "9.png"]
    ordered = sorted(names, key=natural_key)
    assert ordered == ["9.png", "10.png", "b.png", "IMG1.png", "img02.png", "img2.png", "img2a.png", "img10.png"]


def test_order_of_names_does_not_depend_on_the_order_of_the_folder():
    names = ["a1b2", "a1b10", "a01b2", "A1b2", "a", "1", ""]
    backwards = names[::-1]
    assert sorted(names, key=natural_key) == sorted(backwards, key=natural_key)


def test_folder_gives_its_images_in_natural_order_and_nothing_else(tmp_path):
    touched(tmp_path, "s10.tif", "s9.TIFF", "s1.jpg", "notes.txt", ".s0.png", "raw2.NEF")
    (tmp_path / "more").mkdir()
    assert [path.name for path in list_files(tmp_path)] == ["raw2.NEF", "s1.jpg", "s9.TIFF", "s10.tif"]


def test_pattern_gives_all_it_matches_in_natural_order(tmp_path):
    touched(tmp_path, "s10.x", "s2.x", "t.y")
    assert [path.name for path in list_files(str(tmp_path / "s*.x"))] == ["s2.x", "s10.x"]


def test_a_file_goes_before_a_pattern_of_the_same_name(tmp_path):
    touched(tmp_path, "s[1].png", "s1.png")
    assert [path.name for path in list_files(str(tmp_path / "s[1].png"))] == ["s[1].png"]


def test_a_file_stands_for_itself_even_where_it_is_missing(tmp_path):
    assert list_files(tmp_path / "none.png") == [tmp_path / "none.png"]
    assert len(list_files("a\0b")) == 1
    assert len(list_files("a\0b/*.png")) == 1


@pytest.mark.parametrize("marker", ["zarr.json", ".zarray", ".zgroup"])
def test_zarr_folder_is_one_input(tmp_path, marker):
    assert not is_zarr_folder(tmp_path)
    touched(tmp_path, marker)
    assert is_zarr_folder(tmp_path)
    assert list_files(tmp_path) == [tmp_path]


def test_folder_without_images_is_refused(tmp_path):
    with pytest.raises(ImageFileError, match=r"the folder '.*' holds no image; files ending in .png, .*check its name"):
        list_files(tmp_path)


def test_pattern_without_match_is_refused(tmp_path):
    with pytest.raises(ImageFileError, match=r"^no file matches '.*\*.tif'; at least 2 images of one scene are needed; check the pattern"):
        list_files(str(tmp_path / "*.tif"))


def test_unreadable_folder_is_refused(tmp_path, monkeypatch):
    def deny(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "iterdir", deny)
    with pytest.raises(ImageFileError, match=r"cannot be read \(Permission denied\); a readable folder is needed"):
        list_files(tmp_path)


def test_link_that_leads_to_itself_is_listed_and_left_to_the_reader(tmp_path):
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    assert list_files(tmp_path) == [tmp_path / "loop.png"]
    assert list_files(tmp_path / "loop.png") == [tmp_path / "loop.png"]


def test_all_frames_are_used_in_their_order():
    assert choose_frames(["a", "b", "c"]) == [0, 1, 2]


def test_frames_are_excluded_by_number_and_by_pattern():
    assert choose_frames(["a1", "b2", "a3", "c4"], exclude=[4, "a*"]) == [1]
    assert choose_frames(["a1", "b2"], exclude="a*") == [1]


def test_frames_are_reversed_or_reordered_by_their_first_numbers():
    assert choose_frames("abcd", exclude=[2], order="reversed") == [3, 2, 0]
    assert choose_frames("abcd", exclude=[2], order=[4, 1, 3]) == [3, 0, 2]


@pytest.mark.parametrize("order", [[1, 2], [1, 2, 2], [1, 2, 4], []])
def test_an_order_that_is_no_permutation_is_refused(order):
    with pytest.raises(InvalidConfigError, match=r"does not name each frame once; the numbers \[1, 2, 3\] are needed in the order wanted"):
        choose_frames("abc", order=order)


def test_an_unknown_order_is_refused():
    with pytest.raises(InvalidConfigError, match="the order 'random' is unknown; 'reversed' or the numbers of all frames are needed"):
        choose_frames("abc", order="random")


@pytest.mark.parametrize("item", [0, 4, -1, "x*"])
def test_an_exclusion_that_meets_no_frame_is_refused(item):
    with pytest.raises(InvalidConfigError, match=r"no frame is excluded by .*; a number from 1 to 3 or a pattern of names is needed"):
        choose_frames("abc", exclude=[item])

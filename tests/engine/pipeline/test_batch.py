"""Finding stacks below a folder, and going on past those that fail."""

import logging
from pathlib import Path

import pytest

from qmcif_engine.errors import Cancelled, ImageFileError, InvalidConfigError, OutputError
from qmcif_engine.pipeline.batch import BatchStatus, Group, check_name, find_groups, parse_pattern, run_batch


def make(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def found(root, pattern=None, **options):
    return {group.name: [str(path.relative_to(root)) for path in group.inputs] for group in find_groups(root, pattern, **options)}


def test_every_folder_with_images_is_a_stack_in_natural_order(tmp_path):
    make(tmp_path, "s10/a.png", "s2/a.tif", "notes/readme.txt", "x.ome.zarr/zarr.json", ".hidden/a.png", "loose.png", "dots/.a.png")

    assert found(tmp_path) == {"s2": ["s2"], "s10": ["s10"], "x": ["x.ome.zarr"]}
    assert list(found(tmp_path)) == ["s2", "s10", "x"]


def test_a_pattern_collects_the_images_of_a_group_by_their_number(tmp_path):
    make(tmp_path, "a_b_z10.tif", "a_b_z9.tif", "c_z1.tif", "c_z.tif", "other.tif")

    assert found(tmp_path, "{group}_z{frame}.tif") == {"a_b": ["a_b_z9.tif", "a_b_z10.tif"], "c": ["c_z1.tif"]}


def test_a_pattern_may_go_into_folders_and_leave_parts_open(tmp_path):
    make(tmp_path, "day 1/bee/0.png", "day 1/bee/1.png", "day 2/ant/0.png", "day 1/bee/deep/3.png", "x/ant/0.png")

    assert found(tmp_path, "day */{group}/{frame}.png") == {"ant": ["day 2/ant/0.png"], "bee": ["day 1/bee/0.png", "day 1/bee/1.png"]}


def test_without_a_frame_every_match_is_a_stack_of_its_own(tmp_path):
    make(tmp_path, "a.ome.tif", "b.ome.tif", "b.txt")

    assert found(tmp_path, "{group}.ome.tif") == {"a": ["a.ome.tif"], "b": ["b.ome.tif"]}


def test_characters_of_a_pattern_mean_themselves(tmp_path):
    make(tmp_path, "a(1)+.tif", "aX1Y+.tif")

    assert found(tmp_path, "{group}({frame})+.tif") == {"a": ["a(1)+.tif"]}


def test_the_folder_of_results_is_no_input(tmp_path):
    make(tmp_path, "s1/a.png", "out/b.png")
    (tmp_path / "link").symlink_to(tmp_path / "out")

    assert list(found(tmp_path, leave_out=tmp_path / "out")) == ["s1"]


def test_broken_links_are_passed_over(tmp_path):
    make(tmp_path, "s1/a.png")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")

    assert list(found(tmp_path, leave_out=tmp_path / "out")) == ["s1"]


def test_a_folder_without_stacks_is_refused(tmp_path):
    with pytest.raises(ImageFileError, match="holds no stack; folders of images are needed"):
        find_groups(tmp_path)
    with pytest.raises(ImageFileError, match=r"holds no stack; files that match '\{group\}_\{frame\}\.tif' are needed"):
        find_groups(tmp_path, "{group}_{frame}.tif")


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(ImageFileError, match=r"nowhere' cannot be read \(No such file or directory\); a readable folder is needed"):
        find_groups(tmp_path / "nowhere")


@pytest.mark.parametrize("pattern", ["*.tif", "{group}{group}.tif", "{group}_{frame}{frame}", "../{group}.tif", "/{group}", "{group}/", ""])
def test_a_pattern_without_one_group_or_leading_out_of_the_folder_is_refused(pattern):
    with pytest.raises(InvalidConfigError, match=r"the pattern is .*; names with one \{group\} and at most one \{frame\} are needed"):
        parse_pattern(pattern)


@pytest.mark.parametrize(("pattern", "wrong"), [("{group}_{z}.tif", r"\{z\}"), ("*{group}*{frame}*.tif", "5 placeholders in")])
def test_a_placeholder_that_is_unknown_or_one_too_many_is_refused(pattern, wrong):
    with pytest.raises(InvalidConfigError, match=rf"has {wrong}.*; \{{group\}}, \{{frame\}} and \*, at most 3 in a name, can be used"):
        parse_pattern(pattern)


def test_a_hostile_name_is_compared_quickly(tmp_path):
    make(tmp_path, "a_" * 120 + "b")

    with pytest.raises(ImageFileError, match="holds no stack"):
        find_groups(tmp_path, "*_{group}_{frame}.tif")


def test_names_that_differ_in_case_only_are_refused(tmp_path):
    make(tmp_path, "Bee_1.tif", "bee_1.tif")

    with pytest.raises(InvalidConfigError, match="the stacks 'Bee' and 'bee' would have results of the same name"):
        find_groups(tmp_path, "{group}_{frame}.tif")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", "C:x", ".hidden", "a\nb", "\x1b[31m", " a", "ä" * 101, "\udcff"])
def test_a_name_that_does_not_stay_one_file_is_refused(name):
    with pytest.raises(OutputError, match=r"which cannot name its results; a plain file name is needed"):
        check_name(name)


@pytest.mark.parametrize("name", ["bee", "2024-05-01 12:30", "ä_ö", "a.b", "..a".lstrip(".")])
def test_ordinary_names_are_taken(name):
    check_name(name)


def test_a_failing_stack_does_not_keep_the_others_from_being_fused(caplog):
    def fuse_group(group):
        if group.name == "b":
            msg = "no\nluck"
            raise MemoryError(msg)
        if group.name == "d":
            raise ZeroDivisionError
        return [] if group.name == "c" else [Path(f"{group.name}.tif")]

    told = []
    with caplog.at_level(logging.DEBUG):
        rows = run_batch([Group(name, ()) for name in ("a", "b", "c", "d", "../e", "f")], fuse_group, on_row=told.append)

    fused, skipped, failed = BatchStatus.FUSED, BatchStatus.SKIPPED, BatchStatus.FAILED
    assert [row.status for row in rows] == [fused, failed, skipped, failed, failed, fused]
    assert [row.message for row in rows[:4]] == ["", "no luck", "", "ZeroDivisionError"]
    assert rows[0].outputs == (Path("a.tif"),)
    assert told == rows


def test_an_interruption_ends_the_batch():
    def fuse_group(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_batch([Group("a", ())], fuse_group)


def test_cancel_ends_the_batch():
    begun = []

    def fuse_group(group):
        begun.append(group.name)
        msg = "the work was cancelled"
        raise Cancelled(msg)

    with pytest.raises(Cancelled):
        run_batch([Group("a", ()), Group("b", ())], fuse_group)

    assert begun == ["a"]

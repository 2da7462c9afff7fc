"""A table is written completely or not at all."""

import pytest

from napari_qmcif.table_file import write_table


def test_rows_are_written_and_an_existing_file_is_replaced(tmp_path):
    target = tmp_path / "table.csv"
    target.write_text("old")

    write_table(target, [("metric", "value"), ("Q_G", 0.5), ("a,b", 'say "no"')])

    assert target.read_text() == 'metric,value\nQ_G,0.5\n"a,b","say ""no"""\n'
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "table.csv"
    target.write_text("old")

    def rows():
        yield ("metric",)
        msg = "disk full"
        raise OSError(msg)

    with pytest.raises(OSError, match="disk full"):
        write_table(target, rows())

    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]

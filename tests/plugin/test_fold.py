"""A fold hides its content until its heading is clicked."""

from qtpy.QtWidgets import QLabel

from napari_qmcif.fold import Fold


def test_content_is_hidden_until_the_heading_is_clicked_and_again_after(qtbot):
    fold = Fold("Advanced", QLabel("settings"))
    qtbot.addWidget(fold)
    assert (fold.content.isVisibleTo(fold), fold.button.text()) == (False, "▸ Advanced")

    fold.button.click()
    assert (fold.content.isVisibleTo(fold), fold.button.text()) == (True, "▾ Advanced")

    fold.button.click()
    assert not fold.content.isVisibleTo(fold)


def test_a_remark_stands_behind_the_title(qtbot):
    fold = Fold("Advanced", QLabel())
    qtbot.addWidget(fold)

    fold.set_remark(" (2 changed)")

    assert fold.button.text() == "▸ Advanced (2 changed)"

"""A widget hears when it leaves its parent, and only then."""

from qtpy.QtWidgets import QWidget

from napari_qmcif.closing import call_when_closed


def test_leaving_the_parent_is_heard_once_each_time(qtbot):
    parent, widget, heard = QWidget(), QWidget(), []
    qtbot.addWidget(parent)
    qtbot.addWidget(widget)
    call_when_closed(widget, lambda: heard.append(widget.parent()))

    widget.setParent(parent)
    assert heard == []
    widget.setParent(None)

    assert heard == [None]

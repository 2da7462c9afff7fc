"""A closed widget hears nothing any more."""

import numpy as np
import pytest

from napari_qmcif.docked_widget import DockedWidget


@pytest.mark.viewer
def test_a_widget_follows_the_layers_until_it_is_closed(make_napari_viewer_proxy, qtbot):
    viewer = make_napari_viewer_proxy()
    heard = []
    widget = DockedWidget(viewer)
    widget.follow_layers(lambda event=None: heard.append(event))
    viewer.window.add_dock_widget(widget)

    viewer.add_image(np.zeros((4, 5)))
    n_heard = len(heard)
    viewer.window.remove_dock_widget(widget)
    viewer.add_image(np.zeros((4, 5)))

    assert n_heard > 0
    assert len(heard) == n_heard
    with qtbot.waitSignal(widget.destroyed):
        widget.deleteLater()

"""Bars are drawn as long as their figures say."""

from qtpy.QtGui import QColor

from napari_qmcif.bar_plot import ROW_PX, BarPlot


def count_pixels(plot, row, color):
    image = plot.grab().toImage()
    y = row * ROW_PX + ROW_PX // 2
    return sum(image.pixelColor(x, y) == QColor(color) for x in range(image.width()))


def test_bars_are_as_long_as_their_figures_and_the_longest_is_one(qtbot):
    plot = BarPlot()
    qtbot.addWidget(plot)
    plot.resize(300, 100)
    plot.set_colors(text="#ffffff", bar="#ff0000", ground="#0000ff")

    plot.show_figures({"whole": 1.0, "half": 0.5, "none": 0.0})
    plot.resize(300, plot.height())

    whole, half, none = (count_pixels(plot, row, "#ff0000") for row in range(3))
    assert whole > 100
    assert abs(half - whole / 2) <= 2
    assert none == 0
    assert plot.height() == 3 * ROW_PX


def test_a_figure_above_one_sets_the_scale(qtbot):
    plot = BarPlot()
    qtbot.addWidget(plot)
    plot.set_colors(text="#ffffff", bar="#ff0000", ground="#0000ff")
    plot.show_figures({"large": 2.0, "one": 1.0})
    plot.resize(300, plot.height())

    large, one = (count_pixels(plot, row, "#ff0000") for row in range(2))
    assert abs(one - large / 2) <= 2


def test_without_figures_it_takes_no_room(qtbot):
    plot = BarPlot()
    qtbot.addWidget(plot)

    assert (plot.height(), plot.isVisibleTo(plot.parentWidget())) == (0, False)

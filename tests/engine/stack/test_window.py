from qmcif_engine.stack.window import Window


def test_a_window_knows_its_shape_and_cuts_it_out():
    window = Window(2, 3, 7, 5)

    assert window.shape == (5, 2)
    assert window.slices == (slice(2, 7), slice(3, 5))
    assert Window.whole((4, 9, 3)) == Window(0, 0, 4, 9)


def test_a_margin_ends_at_the_image_border():
    assert Window(2, 3, 7, 5).grown(4, (10, 8)) == Window(0, 0, 10, 8)
    assert Window(20, 30, 40, 50).grown(4, (100, 100)) == Window(16, 26, 44, 54)


def test_a_moved_window_has_the_same_shape_further_down_and_right():
    moved = Window(2, 3, 7, 5).moved(10, 100)

    assert moved == Window(12, 103, 17, 105)
    assert moved.moved(-10, -100) == Window(2, 3, 7, 5)


def test_a_core_counted_from_a_corner_and_moved_by_it_is_the_core():
    core, outer = Window(20, 30, 40, 50), Window(5, 9, 60, 70)

    assert core.relative_to(outer).moved(outer.top, outer.left) == core


def test_a_core_is_found_again_inside_its_padded_window():
    core = Window(20, 30, 40, 50)
    padded = core.grown(25, (100, 100))

    assert core.relative_to(padded) == Window(20, 25, 40, 45)

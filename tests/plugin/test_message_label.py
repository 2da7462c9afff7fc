"""What goes wrong is said in place and as a notification."""

import pytest
from napari.utils.notifications import notification_manager

from napari_qmcif.message_label import MessageLabel
from qmcif_engine import InvalidImageError


@pytest.fixture
def label(qtbot):
    made = MessageLabel()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def told(monkeypatch):
    notifications = []
    monkeypatch.setattr(notification_manager, "dispatch", notifications.append)
    return notifications


def test_without_a_text_the_label_takes_no_room(label):
    assert not label.isVisibleTo(label.parentWidget())
    label.say("copied")
    assert (label.text(), label.isVisibleTo(label.parentWidget())) == ("copied", True)


@pytest.mark.parametrize("error", [InvalidImageError("one was given; two are needed"), OSError("disk full")])
def test_foreseen_errors_are_told_in_their_own_words(label, told, error):
    label.complain(error)

    assert label.text() == str(error)
    assert [notification.message for notification in told] == [str(error)]


def test_other_errors_come_with_their_kind_and_traceback(label, told):
    label.complain(ZeroDivisionError("division by zero"))

    assert label.text() == "ZeroDivisionError: division by zero"
    assert isinstance(told[0].exception, ZeroDivisionError)

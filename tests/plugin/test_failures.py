"""Errors are told in words where they were foreseen, and with their traceback where not."""

import pytest
from napari.utils.notifications import notification_manager

from napari_qmcif.worker import describe_failure, notify
from qmcif_engine import InvalidImageError


@pytest.fixture
def told(monkeypatch):
    notifications = []
    monkeypatch.setattr(notification_manager, "dispatch", notifications.append)
    return notifications


@pytest.mark.parametrize("error", [InvalidImageError("one was given; two are needed"), OSError("disk full")])
def test_foreseen_errors_are_told_in_their_own_words(told, error):
    notify(error)

    assert [notification.message for notification in told] == [describe_failure(error)] == [str(error)]


def test_other_errors_come_with_their_kind_and_traceback(told):
    error = ZeroDivisionError("division by zero")
    notify(error)

    assert describe_failure(error) == "ZeroDivisionError: division by zero"
    assert told[0].exception is error

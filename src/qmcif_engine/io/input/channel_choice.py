"""Settle which channels of an acquisition decide about focus.

One channel is a gray image, three are a color image. Two are a color image whose third plane is zero: a quaternion has room for
three, and zeros take part in no decision. Of more than three, the user names up to three. Any number can be decided on one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.input.file_stack import ZERO_PLANE
from qmcif_engine.stack.separate_channels import EACH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.io.input.frame_source import SourceDescription

_N_COLORS = 3


def choose_channels(found: SourceDescription, wanted: Sequence[int | str] | None) -> tuple[int, ...]:
    """Return one or three channels counted from 0, a missing third being a plane of zeros; or all where each decides by itself.

    Parameters
    ----------
    found : SourceDescription
    wanted : sequence of int or str, optional
        Numbers counted from 1, or names; all channels where left out. Or ``"each"``.
    """
    if wanted == EACH:
        _check_separable(found)
        return tuple(range(found.n_channels))
    if wanted is None:
        chosen = list(range(found.n_channels))
        if len(chosen) > _N_COLORS:
            msg = (
                f"{found.names[0]} has {found.n_channels} channels{_list_names(found)}; up to {_N_COLORS} decide about focus: "
                "choose them with channels=[1, 2, 3], on the command line --channels 1,2,3, and all others follow their decision; "
                "or let every channel decide for itself with --channels each"
            )
            raise InvalidConfigError(msg)
    else:
        chosen = [_find_channel(found, channel) for channel in wanted]
    if not 1 <= len(chosen) <= _N_COLORS or len(set(chosen)) < len(chosen):
        msg = f"the channels {wanted} were chosen; one to {_N_COLORS} different ones are needed: correct the choice"
        raise InvalidConfigError(msg)
    return (*chosen, ZERO_PLANE) if len(chosen) == _N_COLORS - 1 else tuple(chosen)


def _check_separable(found: SourceDescription) -> None:
    """Refuse alpha beside several channels: it belongs to all of them, and each would be taken from other images."""
    if found.has_alpha and found.n_channels > 1:
        msg = (
            f"{found.names[0]} has alpha, which belongs to all of its channels; none is needed to decide on each channel by itself: "
            "remove it, or leave out --channels each"
        )
        raise InvalidConfigError(msg)


def _find_channel(found: SourceDescription, channel: int | str) -> int:
    names = found.metadata.channel_names
    if isinstance(channel, str) and names.count(channel) == 1:
        return names.index(channel)
    if not isinstance(channel, str) and 1 <= channel <= found.n_channels:
        return channel - 1
    msg = f"there is no channel {channel!r}; a number from 1 to {found.n_channels} or a name is needed{_list_names(found)}: correct it"
    raise InvalidConfigError(msg)


def _list_names(found: SourceDescription) -> str:
    return f" ({', '.join(found.metadata.channel_names)})" if found.metadata.channel_names else ""

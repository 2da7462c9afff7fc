"""The QMCIF engine in napari: layers in, layers out, no arithmetic on pixels."""

from typing import Any

__all__ = ["fuse_focus_stack"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - imported when first used, so that `qmcif --help` starts at once
    if name != "fuse_focus_stack":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from napari_qmcif.fusing import fuse_focus_stack

    return fuse_focus_stack

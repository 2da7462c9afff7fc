"""Record what must not change by accident: help texts, JSON outputs, messages of errors, and the samples of small fusions.

Run as ``python tests/golden/record.py``, after a change that is meant; the parts ``help``, ``json``, ``messages`` and ``digests`` can be
named. ``tests/test_golden.py`` and ``tests/equivalence/test_digests.py`` compare, except the messages, which are there to be read:
``git diff`` shows which error says something else.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import platform
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import tifffile
import zarr
from PIL import Image

from qmcif_engine import make_focus_stack
from qmcif_engine.cli import main as run_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = Path(__file__).parent
SOURCES = Path(__file__).parents[2] / "src"
DIGESTS = FOLDER.parent / "equivalence" / "digests.json"
COMMANDS = ("", "info", "fuse", "batch", "align", "demo", "evaluate", "benchmark", "surface", "clean")
JSON_COMMANDS = {
    "info": ["info", "color.tif", "--json"],
    "fuse": ["fuse", "color.tif", "-o", "fused.tif", "--maps", "maps", "--depth", "height.tif", "--z-step", "2", "--json"],
    "align": ["align", "color.tif", "-o", "aligned.tif", "--json"],
    "evaluate": ["evaluate", "frames/0.png", "frames/1.png", "--fused", "frames/2.png", "--truth", "frames/3.png", "--json"],
    "batch": ["batch", "groups", "-o", "results", "--json"],
}
FUSIONS = {
    "uint8, color, PNG": ["color.tif", "-o", "out/f.png"],
    "uint8, gray": ["gray.tif", "-o", "out/f.tif"],
    "uint16, color": ["color16.tif", "-o", "out/f.tif"],
    "float32, gray": ["float.tif", "-o", "out/f.tif"],
    "time series": ["series.tif", "-o", "out/f.ome.tif"],
    "slabs": ["gray.tif", "-o", "out/f.tif", "--slab", "3"],
    "each channel": ["channels.tif", "-o", "out/f.tif", "--channels", "each"],
    "aligned": ["moved.tif", "-o", "out/f.tif", "--align", "similarity"],
    "with maps": ["color.tif", "-o", "out/f.tif", "--maps", "out/maps"],
    "with heights": ["color.tif", "-o", "out/f.tif", "--depth", "out/h.tif", "--z-step", "2"],
    "Zarr": ["gray.zarr", "-o", "out/f.ome.zarr"],
    "preset paper": ["color.tif", "-o", "out/f.tif", "--preset", "paper"],
}
FLOAT_DECIMALS = 3
"""Floats (heights, confidences, float samples) differ in their last bits from processor to processor, so they are rounded before."""

VOLATILE = ("seconds", "bytes", "version", "date", "hostname", "workers", "memory", "cores", "started", "finished")


def main(arguments: list[str]) -> None:
    """Write the parts that are named, or all."""
    parts = {
        "help": lambda: (FOLDER / "help.txt").write_text(join_help(), encoding="utf-8"),
        "json": lambda: write_json(FOLDER / "json.json", collect_json()),
        "messages": lambda: (FOLDER / "messages.txt").write_text("".join(f"{line}\n" for line in list_messages()), encoding="utf-8"),
        "digests": lambda: write_json(DIGESTS, {"machine": platform.machine(), "samples": {name: digest_fusion(name) for name in FUSIONS}}),
    }
    for name in arguments or parts:
        parts[name]()
        print(f"recorded: {name}", file=sys.stderr)


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def run_quietly(arguments: list[str]) -> str:
    """Return what a command prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()) as complaints:
        try:
            status = run_command(arguments)
        except SystemExit as end:
            status = end.code
    assert not status, f"{arguments} ended with {status}: {complaints.getvalue()}"
    return printed.getvalue()


# --- help, JSON and messages -----------------------------------------------------------------------------------------------------


def join_help() -> str:
    """Return the help of every command."""
    with mock.patch.dict(os.environ, {"COLUMNS": "100"}):
        return "\n".join(f"== qmcif {name}\n{run_quietly([*name.split(), '--help'])}" for name in COMMANDS)


def collect_json() -> dict[str, Any]:
    """Return the JSON output of the main commands, without what changes from run to run."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_stacks(Path())
        return {name: settle(json.loads(run_quietly(command)), folder) for name, command in JSON_COMMANDS.items()}


def settle(value: Any, folder: str) -> Any:
    """Return a value of a JSON output with ``...`` for what changes from run to run, floats rounded."""
    if isinstance(value, dict):
        return {name: "..." if any(word in name for word in VOLATILE) else settle(one, folder) for name, one in value.items()}
    if isinstance(value, list):
        return [settle(one, folder) for one in value]
    return round(value, FLOAT_DECIMALS) if isinstance(value, float) else value.replace(folder, "") if isinstance(value, str) else value


def list_keys(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all keys of a JSON output; items of a list count as one."""
    items = value.items() if isinstance(value, dict) else [("[]", item) for item in value] if isinstance(value, list) else []
    for name, one in items:
        yield f"{path}.{name}"
        yield from list_keys(one, f"{path}.{name}")


def list_messages() -> list[str]:
    """Return class and text of everything the sources raise, sorted; expressions in braces."""
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                texts = {node.targets[0].id: node.value for node in ast.walk(function) if is_assignment(node)}
                raised = (node.exc for node in ast.walk(function) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call))
                found |= {f"{ast.unparse(call.func)}: {', '.join(show(one, texts) for one in call.args)}" for call in raised}
    return sorted(found)


def is_assignment(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)


def show(argument: ast.expr, texts: dict[str, ast.expr]) -> str:
    if isinstance(argument, ast.Name):
        argument = texts.get(argument.id, argument)
    text = ast.unparse(argument)
    return text.removeprefix("f")[1:-1] if isinstance(argument, ast.JoinedStr | ast.Constant) and text[-1] in "'\"" else text


# --- digests ---------------------------------------------------------------------------------------------------------------------


def write_stacks(folder: Path) -> None:
    """Write small generated stacks of every kind."""
    color = make_focus_stack(n_images=6, shape=(96, 112), seed=3).images
    gray = np.ascontiguousarray(color[..., 1])
    tifffile.imwrite(folder / "color.tif", color, photometric="rgb")
    moved = make_focus_stack(n_images=6, shape=(160, 192), seed=3).images
    moved = np.stack([image[2 * number : 144 + 2 * number, number : 176 + number] for number, image in enumerate(moved)])
    tifffile.imwrite(folder / "moved.tif", moved, photometric="rgb")
    tifffile.imwrite(folder / "color16.tif", color.astype(np.uint16) * 257, photometric="rgb")
    tifffile.imwrite(folder / "gray.tif", gray, photometric="minisblack")
    tifffile.imwrite(folder / "float.tif", gray.astype(np.float32) / 255, photometric="minisblack")
    channels = np.ascontiguousarray(np.moveaxis(color[..., :2], -1, 1)).astype(np.uint16) * 40
    tifffile.imwrite(folder / "channels.tif", channels, imagej=True, metadata={"axes": "ZCYX"})
    series = np.stack([gray, gray[::-1]]).astype(np.uint16)
    tifffile.imwrite(folder / "series.tif", series, imagej=True, metadata={"axes": "TZYX"})
    zarr.save_array(str(folder / "gray.zarr"), gray)
    (folder / "groups" / "one").mkdir(parents=True)
    (folder / "frames").mkdir()
    for number, image in enumerate(color):
        Image.fromarray(image).save(folder / "frames" / f"{number}.png")
        Image.fromarray(image).save(folder / "groups" / "one" / f"{number}.png")


def digest_fusion(name: str) -> dict[str, str]:
    """Return the SHA-256 of the decoded samples of every file that a fusion writes."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_stacks(Path())
        Path("out").mkdir()
        run_quietly(["fuse", *FUSIONS[name], "--quiet"])
        return {path.relative_to("out").as_posix(): digest(read(path)) for path in list_images(Path("out"))}


def list_images(folder: Path) -> Iterator[Path]:
    """Yield the files, and Zarr groups as one, below a folder; kept slabs are left out."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.suffix not in {".zarr", ".slabs"}:
            yield from list_images(path)
        elif path.suffix in READERS:
            yield path


def read(path: Path) -> np.ndarray:
    return READERS[path.suffix](path)


READERS: dict[str, Callable[[Path], np.ndarray]] = {
    ".tif": tifffile.imread,
    ".png": lambda path: np.asarray(Image.open(path)),
    ".zarr": lambda path: zarr.open_group(str(path), mode="r")["0"][:],
}


def digest(samples: np.ndarray) -> str:
    """Return type, shape and SHA-256 of samples; floats rounded."""
    kept = np.round(samples, FLOAT_DECIMALS) + 0 if samples.dtype.kind == "f" else samples
    code = hashlib.sha256(np.ascontiguousarray(kept).tobytes()).hexdigest()
    return f"{samples.dtype} {'x'.join(map(str, samples.shape))} {code}"


if __name__ == "__main__":
    main(sys.argv[1:])

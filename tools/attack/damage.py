"""Ways to damage a file: blind ones, and such that know lengths, numbers and markup when they see them."""

from __future__ import annotations

import os
import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

_NUMBERS = [0, 1, 2, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63]
_TEXTS = [
    "-1", "0", "1e999", "-1e999", "NaN", "null", "true", "1e9", "4294967296", "9" * 30, "9" * 5000, '""', "[]", "{}", "[" * 2000, "0.5",
    '"²"', '"\\u0000"', '"../../../etc"', '"a/../.."', '"\\ud800"', "1e-320", '{"a":' * 1000, '"' + "x" * 100_000 + '"', "65535",
]  # fmt: skip
_TEXT_SUFFIXES = (".toml", ".json", ".zattrs", ".zarray", ".zgroup", ".xml")
_VALUE = re.compile(rb'-?\d+(?:\.\d+)?|"[^"]*"|true|false|null')
_LARGEST_BYTES = 2**22


def flip_bits(content: bytes, chance: random.Random) -> bytes:
    """Change a few single bits."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        place = chance.randrange(len(changed))
        changed[place] ^= 1 << chance.randrange(8)
    return bytes(changed)


def flip_header_bits(content: bytes, chance: random.Random) -> bytes:
    """Change single bits where headers and directories are: at the beginning and at the end."""
    edge = min(len(content), 300)
    changed = bytearray(content)
    for _ in range(chance.choice((1, 2, 4))):
        place = chance.randrange(edge)
        changed[place if chance.random() < 0.7 else len(changed) - 1 - place] = chance.randrange(256)
    return bytes(changed)


def set_number(content: bytes, chance: random.Random) -> bytes:
    """Write a number that programs stumble over, in 1 to 8 bytes and either byte order."""
    width, order = chance.choice("BHIQ"), chance.choice("<>")
    packed = struct.pack(order + width, chance.choice(_NUMBERS) & (256 ** struct.calcsize(width) - 1))
    place = chance.randrange(max(len(content) - len(packed), 1))
    if chance.random() < 0.6:
        place = min(place, chance.randrange(400))
    return content[:place] + packed + content[place + len(packed) :]


def cut(content: bytes, chance: random.Random) -> bytes:
    """End the file early."""
    return content[: chance.randrange(len(content))]


def leave_out(content: bytes, chance: random.Random) -> bytes:
    """Leave a piece out."""
    start = chance.randrange(len(content))
    return content[:start] + content[start + chance.choice((1, 2, 4, 12, 100, 1000)) :]


def repeat(content: bytes, chance: random.Random) -> bytes:
    """Repeat a piece, a few or thousands of times."""
    start, length = chance.randrange(len(content)), chance.choice((1, 2, 4, 12, 40, 200))
    piece = content[start : start + length]
    return content[:start] + piece * min(chance.choice((2, 10, 1000, 50_000)), _LARGEST_BYTES // max(len(piece), 1)) + content[start:]


def swap(content: bytes, chance: random.Random) -> bytes:
    """Write one piece over another."""
    length = chance.choice((2, 4, 8, 12, 60))
    start, target = chance.randrange(len(content)), chance.randrange(len(content))
    return content[:target] + content[start : start + length] + content[target + length :]


def fill(content: bytes, chance: random.Random) -> bytes:
    """Write zeros or ones over a piece."""
    start, length = chance.randrange(len(content)), chance.choice((4, 16, 64, 512))
    return content[:start] + chance.choice((b"\0", b"\xff")) * length + content[start + length :]


def empty(content: bytes, chance: random.Random) -> bytes:
    """Leave nothing, or nothing but noise."""
    return chance.choice((b"", content[:1], chance.randbytes(200), content[:8] + chance.randbytes(500)))


def set_value(content: bytes, chance: random.Random) -> bytes:
    """Exchange one value of JSON, TOML or XML for one that makes no sense; in a binary file, of the text in it."""
    found = list(_VALUE.finditer(content[:200_000]))
    if not found:
        return flip_bits(content, chance)
    place = chance.choice(found)
    text = chance.choice(_TEXTS)
    if place[0].startswith(b'"') and chance.random() < 0.5:
        text = f'"{chance.choice(_NUMBERS)}"'
    return content[: place.start()] + text.encode("utf-8", "surrogatepass") + content[place.end() :]


BLIND: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_bits, flip_header_bits, flip_header_bits, set_number, set_number, cut, leave_out, repeat, swap, fill, empty,
)  # fmt: skip
OF_TEXT = (set_value, set_value, set_value, set_value, leave_out, repeat, swap, cut, empty, flip_bits)


def replace_by_other_kind(path: Path, chance: random.Random) -> str:
    """Put something else in the place of a file: a folder, a pipe, a link without end, nothing, or a file nobody may read."""
    kind = chance.choice(("folder", "pipe", "device", "loop", "missing", "unreadable", "dangling"))
    content = path.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "unreadable":
        path.write_bytes(content)
        path.chmod(0)
    elif kind != "missing":
        path.symlink_to({"device": "/dev/zero", "loop": path.name, "dangling": "nowhere"}[kind])
    return kind


def damage(folder: Path, chance: random.Random) -> str:
    """Damage one file of a folder, or several times, and return what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    described = [path for path in files if path.suffix in _TEXT_SUFFIXES or path.name in _TEXT_SUFFIXES]
    target = chance.choice(described if described and chance.random() < 0.7 else files)
    name = str(target.relative_to(folder))
    if chance.random() < 0.02:
        return f"{name}: {replace_by_other_kind(target, chance)}"
    content, done = target.read_bytes(), []
    is_text = target in described or (b"<OME" in content and chance.random() < 0.5)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        change = chance.choice(OF_TEXT if is_text else BLIND)
        if content:
            content = change(content, chance)
        done.append(change.__name__)
    target.write_bytes(content)
    return f"{name}: {', '.join(done)}"

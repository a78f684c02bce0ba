"""Damage, blind and by format: what a bad disk, a faulty program or an attacker makes of a file."""

from __future__ import annotations

import gzip
import io
import json
import pickletools
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

Damage = Callable[[bytes, random.Random], bytes]

_BYTES = (0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x22, 0x5B, 0x7B)
NUMBERS = (0, 1, -1, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1)
_WORDS = (
    *(
        "",
        "0",
        "-1",
        "1e999",
        "nan",
        "9" * 5000,
        "1" + "0" * 400,
        "true",
        "null",
        "\u202e\x1b]0;x\x07",
        "\x00",
        "\ud7ff",
    ),
    *("../../../etc/passwd", "=1+1", "[bold]x[/]", "[" * 3000, "{" * 3000, '{"a":' * 2000, "é" * 300, "a" * 70_000),
)


def blind(data: bytes, rng: random.Random) -> bytes:
    """A few strokes that know nothing of the format."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        _stroke(found, rng)
    return bytes(found)


def _stroke(data: bytearray, rng: random.Random) -> None:
    kind = rng.randrange(9)
    place = rng.randrange(len(data)) if data else 0
    length = min(len(data) - place, rng.choice((1, 2, 4, 8, 16, 64, 512)))
    if kind == 0 and data:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1 and data:
        data[place] = rng.choice(_BYTES)
    elif kind == 2:
        form = rng.choice(("<h", "<i", "<q", ">h", ">i", ">q"))
        number = rng.choice(NUMBERS)
        size = struct.calcsize(form)
        packed = (number % (1 << 8 * size)).to_bytes(size, "little" if form[0] == "<" else "big")
        data[place : place + size] = packed
    elif kind == 3:
        del data[place : place + length]
    elif kind == 4:
        data[place:place] = data[place : place + length] * rng.choice((1, 2, 100))
    elif kind == 5:
        data[place:place] = rng.randbytes(length)
    elif kind == 6:
        del data[place:]
    elif kind == 7 and data:
        other = rng.randrange(len(data))
        data[place : place + length] = data[other : other + length]
    else:
        data[place : place + length] = bytes(length)


def text(data: bytes, rng: random.Random) -> bytes:
    """Words, numbers and lines that are other than they should be."""
    if rng.random() < 0.3:
        return blind(data, rng)
    shown = data.decode("utf-8", "replace")
    kind = rng.randrange(5)
    hits = list(re.finditer(r"-?\d[\d.]*" if kind == 0 else r"\w+", shown))
    if kind < 2 and hits:
        hit = rng.choice(hits)
        shown = shown[: hit.start()] + rng.choice(_WORDS) + shown[hit.end() :]
    else:
        lines = shown.split("\n")
        place = rng.randrange(len(lines))
        if kind == 2:
            lines.insert(place, rng.choice(lines))
        elif kind == 3:
            lines[place] = lines[place].replace(rng.choice((",", "\t", "=", " ", '"')), rng.choice(_WORDS[:12]))
        else:
            lines[place] = rng.choice(_WORDS)
        shown = "\n".join(lines)
    return shown.encode("utf-8", "surrogatepass")


def tree(data: bytes, rng: random.Random) -> bytes:
    """JSON whose values are other than they should be."""
    try:
        value = json.loads(data)
    except ValueError:
        return blind(data, rng)
    if rng.random() < 0.25:
        return text(data, rng)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        keys = node.keys() if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in list(keys):
            places.append((node, key))
            walk(node[key])

    walk(value)
    if places:
        node, key = rng.choice(places)
        odd: list[Any] = [None, [], {}, -1, 2**70, 1e308, "x", "", True, [[[]]], node, "../..", {"a": 1}, float("nan")]
        node[key] = rng.choice([each for each in odd if each is not node])
    return json.dumps(value).encode()


def opcodes(data: bytes, rng: random.Random) -> bytes:
    """A pickle with opcodes put in, left out or doubled."""
    if rng.random() < 0.4:
        return blind(data, rng)
    try:
        places = [place for _, _, place in pickletools.genops(data) if place is not None]
    except Exception:  # noqa: BLE001 - it is damaged already
        return blind(data, rng)
    place = rng.choice(places)
    number = struct.pack("<I", rng.choice(NUMBERS) % 2**32)
    added = rng.choice(
        (
            *(b"r" + number, b"j" + number, b"X" + number, b"B" + number, b"\x85" * rng.choice((1, 300, 20_000))),
            *(
                b"(",
                b"t",
                b"l",
                b"d",
                b"}",
                b"]",
                b"0",
                b"2",
                b"N",
                b"a",
                b"s",
                b"u",
                b"e",
                b"R",
                b"b",
                b"\x90",
                b"\x93",
            ),
            *(
                b"cos\nsystem\n",
                b"c__builtin__\neval\n",
                b"\x8b" + number,
                b"\x95" + number * 2,
                b"I" + b"9" * 5000 + b"\n",
            ),
        )
    )
    if rng.random() < 0.2:
        end = next((other for other in places if other > place), len(data))
        return data[:place] + data[end:]
    return data[:place] + added + data[place:]


def zipped(inner: Damage) -> Damage:
    """A zip archive with one member damaged, its sums made right again."""

    def damage(data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.35:
            return blind(data, rng)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = rng.choice(list(members))
        kind = rng.randrange(8)
        if kind == 0:
            members[name + rng.choice(("", "/..", "\x00", "x"))] = members.pop(name)
        elif kind == 1:
            del members[name]
        elif kind == 2:
            members[name] = bytes(rng.choice((0, 1000, 3_000_000)))
        else:
            members[name] = inner(members[name], rng)
        stream = io.BytesIO()
        method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        with zipfile.ZipFile(stream, "w", method, compresslevel=1) as archive:
            for each, content in members.items():
                archive.writestr(each, content)
        return stream.getvalue()

    return damage


def gzipped(inner: Damage) -> Damage:
    """A gzip file whose contents are damaged."""

    def damage(data: bytes, rng: random.Random) -> bytes:
        return blind(data, rng) if rng.random() < 0.4 else gzip.compress(inner(gzip.decompress(data), rng), 1)

    return damage


def matlab(data: bytes, rng: random.Random) -> bytes:
    """A MATLAB file whose compressed elements are damaged inside."""
    if rng.random() < 0.5:
        return blind(data, rng)
    found, place = [data[:128]], 128
    while place + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, place)
        content = data[place + 8 : place + 8 + size]
        if kind == 15 and rng.random() < 0.5:
            content = zlib.compress(blind(zlib.decompress(content), rng))
        found.append(struct.pack("<II", kind, len(content)) + content)
        place += 8 + size
    return b"".join(found)

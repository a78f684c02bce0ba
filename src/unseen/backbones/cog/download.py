"""One file over HTTP: resumed where it stopped, checked, and in place only when it is whole."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from filelock import FileLock

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60


class DownloadError(Exception):
    """The file could not be had, or is not the one that was promised."""


def download(url: str, target: Path, *, sha256: str = "") -> Path:
    """Fetch `url` to `target`, unless it is there already.

    Bytes go to `<target>.part`, which a later call goes on with; it is renamed when it is whole. Two processes do not
    fetch the same file at once.

    Args:
        sha256: the beginning of the file's checksum in hex, as torch puts it into file names; "" checks nothing.
    """
    if not url.startswith(("https://", "http://")):
        raise DownloadError(f"{url} is not an address that can be fetched.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(target.name + ".lock")):
            if not target.is_file():
                part = target.with_name(target.name + ".part")
                _fetch(url, part)
                _check(part, url, sha256)
                part.replace(target)
    except urllib.error.HTTPError as error:
        raise DownloadError(f"{url} answers {error.code} ({error.reason}).") from error
    except (urllib.error.URLError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} cannot be reached ({getattr(error, 'reason', error)}).") from error
    except OSError as error:
        raise DownloadError(f"{url} could not be fetched to {target.parent} ({error}).") from error
    return target


def _fetch(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "unseen"})  # noqa: S310 - http(s) by the check above
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)  # noqa: S310 - likewise
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        # Nothing is left to send: the part is whole, or it is not of this file; the checksum or the size tells.
        error.close()
        return
    with response:
        resumed = response.status == 206
        length = response.headers.get("Content-Length")
        expected = int(length) + (have if resumed else 0) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    if expected is not None and part.stat().st_size != expected:
        raise DownloadError(
            f"{url} broke off after {part.stat().st_size} of {expected} bytes; the next try goes on from there."
        )


def _check(part: Path, url: str, sha256: str) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(sha256):
        part.unlink()
        raise DownloadError(f"{url} gave another file than the published one: sha256 {found}, not {sha256}...")

"""What a disk, a mount or a machine says for a while, told apart from what proves a file bad.

A file that is gone or whose bytes make no sense is bad: whoever reads it skips it and says so. An input error, a stale
handle, too many open files or no memory say nothing about the file: the same act is tried again a little later, and
where it still fails the work ends. So a hiccup of a disk never becomes data.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from unseen.core.errors import UnavailableError, UnseenError

T = TypeVar("T")

#: Seconds before the second, third and fourth attempt.
WAITS = (0.05, 0.3, 1.0)

#: What the system says of a name or a file, today and tomorrow.
_LASTING = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ESPIPE),
        *(errno.EOVERFLOW, errno.ENXIO, errno.EILSEQ),
        # Of writing: waiting makes no room and gives no leave.
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EPERM, errno.EEXIST, errno.ENOTEMPTY),
    }
)
_PROBE = 64 << 20


def patiently(act: Callable[[], T]) -> T:
    """What `act` gives, tried again where it fails for a reason that may pass; its last error where all tries fail."""
    for wait in WAITS:
        try:
            return act()
        except (UnseenError, OSError, MemoryError) as error:
            if passing_reason(error) is None:
                raise
        time.sleep(wait)
    return act()


def read_patiently(read: Callable[[], T], what: object) -> T:
    """What `read` gives; whatever it raises of a bad file comes through.

    Args:
        what: the file, for the message.

    Raises:
        UnavailableError: a disk, a mount or the machine fails, not the file, and went on failing.
    """
    try:
        return patiently(read)
    except (UnseenError, OSError, MemoryError) as error:
        reason = passing_reason(error)
        if reason is None or isinstance(error, UnavailableError):
            raise
        raise UnavailableError(
            f"{what} cannot be read at present: {reason}, {len(WAITS) + 1} times. That says nothing about the file, so "
            "it is not skipped. See to the disk, the mount or the limits, and run the same command to go on."
        ) from error


def passing_reason(error: BaseException | None) -> str | None:
    """Why an error may pass, by what it was raised from; None where it lasts."""
    known: set[int] = set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        if isinstance(error, MemoryError):
            return "the memory is used up" if _memory_is_short() else None
        if isinstance(error, OSError) and error.errno is not None and error.errno not in _LASTING:
            return (error.strerror or str(error)).lower()
        error = error.__cause__ or error.__context__
    return None


def _memory_is_short() -> bool:
    """Whether it is the machine that has no memory, and not a file that asked for more than anybody has."""
    try:
        bytearray(_PROBE)
    except MemoryError:
        return True
    return False

"""Read a file in a process with limits before this process reads it.

Parsers in native code (Arrow, HDF5, ONNX Runtime) can crash on a damaged file, and a network is built from the sizes in
a configuration, which may be any numbers. `try_isolated` calls such a reader in a new process with limits on memory,
CPU time and written bytes. If the reader fails, the caller gets one error. If it succeeds, the digest of the content is
stored in the home folder, and the same content is not tried again.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

from unseen.core.errors import DataError, StoreError, UnavailableError, UnseenError
from unseen.core.files import format_size, home, write_whole
from unseen.core.guard import allowance, guarded
from unseen.core.identity import digest, identify
from unseen.core.registry import load_object

#: Folder of the home with a file for each content that was read within the limits.
FOLDER = "checked"

_FAILED, _UNAVAILABLE = 3, 4
_KNOWN: set[Path] = set()


@dataclass(frozen=True)
class Trial:
    """A call of a reader in a process of its own.

    Attributes:
        check: the reader, "module:function".
        arguments: of the reader.
        what: the file, for messages.
        kind: what it is read as, such as "an ONNX graph".
        imports: modules that are imported before the limits hold.
        size: bytes of the file.
        memory: bytes that the reader may use, beside those of the imports.
        written: bytes of the largest file that the reader may write.
        seconds: of CPU time that the reader may use, beside one for each million bytes.
    """

    check: str
    arguments: Sequence[str]
    what: str
    kind: str
    imports: Sequence[str]
    size: int
    memory: int
    written: int = 0
    seconds: int = 15

    @property
    def cpu(self) -> int:
        """Seconds of CPU time that the reader may use."""
        return self.seconds + self.size // 1_000_000


def try_isolated(trial: Trial, content: str, *, error: type[UnseenError] = DataError) -> None:
    """Call a reader in a process with limits, unless it has read the same content before.

    Args:
        content: digest of all that the reader reads.
        error: raised if the file is at fault.

    Raises:
        UnavailableError: a disk or the machine failed, not the file.
    """
    known = home() / FOLDER / identify("isolated", "1", trial.check, trial.arguments[1:], content)
    if known in _KNOWN or known.is_file():
        return
    code, line = _START(trial)
    if code == _UNAVAILABLE:
        raise UnavailableError(line)
    if code:
        raise error(line if code == _FAILED and line else _explain(trial, code))
    _KNOWN.add(known)
    with contextlib.suppress(StoreError, OSError):  # a home that cannot be written costs the next process a trial
        write_whole(known, b"", flush=False)


def try_reader(check: str, path: Path, *arguments: str, kind: str, module: str) -> None:
    """Call a reader of one file in a process whose limits follow the size of the file.

    Args:
        check: the reader, "module:function"; it gets the path and then the other arguments.
        path: the file.
        arguments: of the reader.
        kind: what the file is read as.
        module: imported before the limits hold.
    """
    size = path.stat().st_size
    trial = Trial(check, (str(path), *arguments), str(path), kind, (module,), size, allowance(size), seconds=5)
    try_isolated(trial, file_states(path))


def file_states(*paths: Path) -> str:
    """Return a digest of the paths, sizes and times of files, which changes when one is replaced or written to."""
    states = [(str(path.resolve()), path.stat()) for path in paths]
    return digest([[name, state.st_size, state.st_mtime_ns, state.st_ctime_ns] for name, state in states])


def _explain(trial: Trial, code: int) -> str:
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
    why = f"its reader ended with {name}"
    if code in (-getattr(signal, "SIGXCPU", 0), -signal.SIGTERM):
        why = f"that takes more than {trial.cpu} s of CPU time"
    return f"{trial.what} cannot be read as {trial.kind}: {why}. It is damaged, or made to do so."


def _spawn(trial: Trial) -> tuple[int, str]:
    """Return the exit code of a new interpreter that calls the reader, and the line that it printed."""
    command = [sys.executable, "-P", "-m", "unseen.core.isolate"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter and this module
            command,
            input=json.dumps(asdict(trial)).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=60 + 20 * trial.cpu,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -signal.SIGTERM, ""
    except OSError as found:
        return _UNAVAILABLE, f"cannot start a process to read {trial.what}: {found.strerror}."
    return done.returncode, done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2]


#: Starts the process of a trial.
_START = _spawn


def call(trial: Trial) -> tuple[int, str]:
    """Call a reader in this process under the limits; return the exit code of the process and an error line."""
    for module in trial.imports:
        import_module(module)
    check = load_object(trial.check)
    _limit(trial)
    try:
        with guarded(trial.what, trial.kind, advice="It is damaged or was cut short: copy it again."):
            try:
                check(*trial.arguments)
            except MemoryError:
                need = f"more than {format_size(trial.memory)} of memory"
                raise DataError(f"{trial.what} cannot be read as {trial.kind}: that takes {need}.") from None
    except UnavailableError as error:
        return _UNAVAILABLE, str(error)
    except UnseenError as error:
        return _FAILED, " ".join(str(error).split())
    return 0, ""


def _limit(trial: Trial) -> None:
    try:
        import resource
    except ImportError:  # Windows: the wall clock alone ends the process
        return
    seconds = int(time.process_time()) + trial.cpu
    limits = {"CORE": 0, "CPU": seconds, "FSIZE": trial.written}
    used = Path("/proc/self/statm")
    if used.is_file():  # the sixth number counts pages of data and stack
        limits["DATA"] = int(used.read_text().split()[5]) * resource.getpagesize() + trial.memory
    for name, most in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, hard))


def main() -> None:
    """Read a trial from standard input, and print the error line."""
    code, line = call(Trial(**json.load(sys.stdin)))
    sys.stdout.write(line)
    sys.stdout.flush()
    os._exit(code)  # a library that crashes while the interpreter ends has read the file


if __name__ == "__main__":
    main()

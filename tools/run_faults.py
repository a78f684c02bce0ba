"""Inject faults of the machine into runs of a small study, and print what the user sees and what is kept.

    python -m tools.run_faults                   every fault, about 8 minutes
    python -m tools.run_faults clock deleted     some groups of faults

Each run is `unseen run` in its own process and home. `failing_files.c`, loaded before libc, makes system calls on one
kind of file fail, and moves the wall clock; a C compiler on Linux is needed. After each fault, the same command is
repeated without it. "same" means that every metric and every byte of the feature store equal those of an uninterrupted
run. Clusters run on this machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from tools.kills import store

os.environ.setdefault("OMP_NUM_THREADS", "1")

STUDY = """
name = "faults"
models = ["random:test_resnet?size=64"]
datasets = ["packaged:grocery?per_class=2"]

[benchmarks.probe]
seeds = [22, 37]
solver = "logistic"

[benchmarks.rank]
scores = ["logme", "knn"]

[extraction]
part_size = 16
"""

HEADER = "| fault | injected by | exit code and last line | kept: results, features | repeated command |"
LIBRARY, SOURCE = "failing_files.so", Path(__file__).with_name("failing_files.c")
#: Seconds until a run counts as a hang.
PATIENCE = 200.0
DAY = 86_400
EIO = "5"
ENOENT = "2"

#: What a home contains, as patterns of paths below it, with the temporary names under which files are written.
FILES = {
    "results database": "results.sqlite*",
    "lock of an entry": "features/.locks/*",
    "part": "features/*part-*",
    "manifest": "features/*manifest.json*",
    "provenance": "features/*provenance.json*",
    "folder of the features": "features",
    "graph": "graphs/*",
    "card": "cards/*",
    "report": "reports/*",
    "lease": "leases/*",
    "inbox": "inbox/*",
    "any file": "*",
}

Watch = Callable[[int, Path], bool]


@dataclass
class Fault:
    """One fault.

    Attributes:
        name: what fails.
        how: how it is injected.
        variables: environment variables of the run; HOME stands for its home.
        arguments: further arguments of the command.
        watch: called again and again while the run lives, until it returns True.
        prepare: called in the process of the run before the command.
        complete: whether the home contains the results of one of the two seeds before.
    """

    name: str
    how: str
    variables: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    watch: Watch = lambda _pid, _home: True
    prepare: Callable[[Path], object] = lambda _home: None
    complete: bool = False


_METRICS = """
SELECT cell, error, name, hex(value), value FROM result LEFT JOIN metric ON result.id = metric.result
WHERE result.id IN (SELECT max(id) FROM result GROUP BY cell)
"""


# ---- one run ---------------------------------------------------------------------------------------------------------


def run(fault: Fault, study: Path, home: Path) -> tuple[str, list[str]]:
    """Run the command in a forked process; return its exit code, "hang" or "traceback", and its lines of messages."""
    log, mark = home.with_name(f"{home.name}.log"), home.with_name("mark")
    mark.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.environ.update({name: value.replace("HOME", str(home)) for name, value in fault.variables.items()})
            os.environ["FAULT_MARK"] = str(mark)
            fault.prepare(home)
            from unseen.cli import main

            code = main(["run", str(study), "--home", str(home), *fault.arguments])
        except BaseException:  # noqa: BLE001 - that is what is looked for
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    seen, (found, status) = False, (0, 0)
    deadline = time.monotonic() + PATIENCE
    while not found and time.monotonic() < deadline:
        seen = seen or fault.watch(pid, home)
        found, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.003)
    if not found:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    lines = [line for line in lines if "resource_tracker" not in line]  # of this script: forked processes end at once
    if any(line.startswith("Traceback") for line in lines):
        return "**traceback**", lines
    reached = seen or fault.watch in (kill_all, limit_workers)
    if any(name in fault.variables for name in ("FAULT_FILES", "FAULT_CLOCK")):
        reached = mark.exists()
    code_text = str(os.waitstatus_to_exitcode(status)) if found else "**hang**"
    return code_text if reached else f"{code_text} (no such access)", lines


def message(lines: list[str], home: Path) -> str:
    """Return the last error, warning or line of a run, without what differs between runs."""
    errors = [line for line in lines if line.startswith("unseen: error")]
    warned = [line for line in lines if line.startswith("unseen: warning")]
    text = (
        (errors or warned or lines or [""])[-1].strip().replace(str(home), "HOME").replace(str(home.parent), "FOLDER")
    )
    text = re.sub(r"HOME/features/\S*/", "HOME/features/.../", text)
    text = re.sub(r"tcp://\S+|tls://\S+", lambda found: found[0][:3] + "://HOST:PORT", text)
    text = re.sub(r"\b[0-9a-f]{16}\b", "ID", re.sub(r"\.\d+-[0-9a-f]{8}\.tmp", ".tmp", text))
    text = re.sub(r"The first: .* failed: ", "", text).replace(f"worker on {platform.node()}", "worker on MACHINE")
    return text.replace(sys.prefix, "ENVIRONMENT").removeprefix("unseen: ").replace("|", "/")


def metrics(home: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """Return cell and name of each metric with its error and exact value, of the newest result of each cell."""
    with suppress(sqlite3.Error):
        database = sqlite3.connect(f"file:{home / 'results.sqlite'}?mode=ro", uri=True, timeout=30)
        try:
            rows = database.execute(_METRICS).fetchall()
        finally:
            database.close()
        return {(cell, str(name)): (error, f"{text} {value}") for cell, error, name, text, value in rows}
    return {}


def kept(home: Path) -> str:
    """Return how many right results and complete entries of features there are."""
    cells = {cell for (cell, _), (error, _) in metrics(home).items() if not error}
    return f"{len(cells)}, {len(list((home / 'features').rglob('provenance.json')))}"


# ---- watching a run --------------------------------------------------------------------------------------------------


def workers_of(pid: int) -> list[int]:
    """Return the worker processes of a run."""
    found = []
    for name in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            parent = int((name / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"spawn_main" in (name / "cmdline").read_bytes():
                found.append(int(name.name))
    return found


def has_part(home: Path) -> bool:
    return any((home / "features").rglob("part-*.safetensors"))


def has_result(home: Path) -> bool:
    return bool(metrics(home))


def delete_when(ready: Callable[[Path], bool]) -> Watch:
    def watch(_pid: int, home: Path) -> bool:
        if not ready(home):
            return False
        for _ in range(100):
            shutil.rmtree(home, ignore_errors=True)
        return True

    return watch


def kill_one(pid: int, home: Path) -> bool:
    """Kill one worker when there are features."""
    found = workers_of(pid) if has_part(home) else []
    for worker in found[:1]:
        os.kill(worker, signal.SIGKILL)
    return bool(found)


def kill_all(pid: int, _home: Path) -> bool:
    """Kill every worker soon after its start."""
    for worker in workers_of(pid):
        with suppress(OSError):
            os.kill(worker, signal.SIGKILL)
    return False


def limit_memory(megabytes: int) -> Callable[[Path], None]:
    """Return a function that limits the address space of this process and its children."""

    def limit(_home: Path) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + megabytes * 1_000_000
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    return limit


def limit_workers(pid: int, _home: Path) -> bool:
    """Limit the address space of two workers to 1 GB, which they need to import torch alone."""
    found = workers_of(pid)
    for worker in found:
        with suppress(OSError):
            resource.prlimit(worker, resource.RLIMIT_AS, (1 << 30, 1 << 30))
    return False


def hold_lock(seconds: float) -> Callable[[Path], None]:
    """Return a function that starts a process that locks the database for some seconds."""
    code = """if True:
        import sqlite3, sys, time
        database = sqlite3.connect(sys.argv[1], isolation_level=None)
        database.execute("BEGIN EXCLUSIVE")
        print(flush=True)
        time.sleep(float(sys.argv[2]))
    """

    def hold(home: Path) -> None:
        command = [sys.executable, "-c", code, str(home / "results.sqlite"), str(seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE).stdout as ready:  # type: ignore[union-attr]
            ready.readline()

    return hold


def age(days: int) -> Callable[[Path], None]:
    """Return a function that moves the times of all files of a home."""

    def move(home: Path) -> None:
        for path in home.rglob("*"):
            os.utime(path, (time.time() + days * DAY,) * 2)

    return move


# ---- faults ----------------------------------------------------------------------------------------------------------


def failing_files() -> Iterator[Fault]:
    for name, pattern in FILES.items():
        folder, _, last = pattern.rpartition("/")
        hidden = f":HOME/{folder}/.{last}" if folder else ""
        variables = {"FAULT_FILES": f"HOME/{pattern}{hidden}", "FAULT_ERRNO": EIO}
        two = ("--workers", "2") if name == "inbox" else ()
        yield Fault(f"EIO: {name}", "new home", variables, two)
        yield Fault(f"EIO: {name}", "home of one seed", variables, two, complete=True)


def clock() -> Iterator[Fault]:
    for days in (1, -1):
        where = "forwards" if days > 0 else "backwards"
        for after in (0, 60):
            jump = {"FAULT_CLOCK": str(days * DAY), "FAULT_AFTER": str(after)}
            when = f"after {after} readings" if after else "from the start"
            yield Fault(f"clock a day {where}", when, jump)
        yield Fault(f"clock a day {where}", "two workers", jump, ("--workers", "2"))
        yield Fault(f"files a day {where}", "times of all files of a home", prepare=age(days), complete=True)


def deleted() -> Iterator[Fault]:
    yield Fault("home deleted", "after the first part", watch=delete_when(has_part))
    yield Fault("home deleted", "after the first result", watch=delete_when(has_result))
    yield Fault("home deleted", "after the first part, two workers", {}, ("--workers", "2"), delete_when(has_part))


def locked() -> Iterator[Fault]:
    yield Fault("locked database", "another process, 8 s", prepare=hold_lock(8), complete=True)
    yield Fault("locked database", "another process, 64 s", prepare=hold_lock(64), complete=True)


def memory() -> Iterator[Fault]:
    two = ("--workers", "2")
    yield Fault("worker killed", "SIGKILL of one of two, once", {}, two, kill_one)
    yield Fault("worker killed", "SIGKILL of each, at its start", {}, two, kill_all)
    for size in (20, 100, 400):
        yield Fault("memory limit", f"RLIMIT_AS, {size} MB more than the modules", prepare=limit_memory(size))
    yield Fault("memory limit", "RLIMIT_AS of two workers, when they have started", {}, two, limit_workers)


@contextmanager
def cluster(folder: Path, tls: bool, variables: dict[str, str], preload: str = "") -> Iterator[str]:
    """Start a scheduler and two workers; return the address."""
    file, options = folder / "scheduler.json", list[str]()
    if tls:
        options = [
            f"--tls-ca-file={folder / 'ca.pem'}",
            f"--tls-cert={folder / 'ca.pem'}",
            f"--tls-key={folder / 'key.pem'}",
        ]
    base, quiet = [sys.executable, "-m", "dask"], {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    near = ["--scheduler-file", str(file), *options, "--no-dashboard"]
    host = ["--host", "tls://127.0.0.1" if tls else "127.0.0.1", "--port", "0"]
    one = ["--nthreads", "1", "--no-nanny", *(["--preload", preload] if preload else [])]
    with ExitStack() as stack:
        scheduler = subprocess.Popen([*base, "scheduler", *host, *near], cwd=folder, **quiet)  # type: ignore[call-overload]
        stack.callback(scheduler.wait)
        stack.callback(scheduler.kill)
        while not file.is_file() or not file.stat().st_size:
            time.sleep(0.05)
        for _ in range(2):
            environment = {**os.environ, **variables}
            worker = subprocess.Popen([*base, "worker", *one, *near], cwd=folder, env=environment, **quiet)  # type: ignore[call-overload]
            stack.callback(worker.wait)
            stack.callback(worker.kill)
        time.sleep(0.1)
        yield re.findall(r"(?:tcp|tls)://[\d.:]+", file.read_text())[0]


def certificates(folder: Path) -> dict[str, str]:
    """Write a certificate, and return the settings of Dask for it."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=faults -keyout key.pem -out ca.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    prefix = "DASK_DISTRIBUTED__COMM__"
    files = {"TLS__CA_FILE": "ca.pem", "TLS__CLIENT__CERT": "ca.pem", "TLS__CLIENT__KEY": "key.pem"}
    return {f"{prefix}{name}": str(folder / file) for name, file in files.items()}


def on_cluster(tls: bool, what: str) -> Iterator[Fault]:
    """Start a cluster for one run, as `what` says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings, theirs = certificates(folder) if tls else {}, dict[str, str]()
        if what == HIDDEN:
            theirs = {"FAULT_FILES": "*/home-*", "FAULT_ERRNO": ENOENT, "FAULT_MARK": str(folder / "mark")}
            theirs["UNSEEN_HOME"] = str(folder / "own")
        if what == VERSION:
            other = folder / "other" / "numpy-0.0.1.dist-info"
            other.mkdir(parents=True)
            (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.0.1\n")
            theirs["PYTHONPATH"] = os.pathsep.join([str(other.parent), os.environ.get("PYTHONPATH", "")])
        with cluster(folder, tls, theirs) as address:
            if what == CERTIFICATE:
                settings = certificates(folder)
            if what == PLAIN:
                address = address.replace("tls:", "tcp:")
            arguments = ("--engine", "dask", "--scheduler", address)
            yield Fault("Dask over TLS" if tls else "Dask", what, settings, arguments)
            if what == HIDDEN and not (folder / "mark").exists():
                raise SystemExit("the workers did not look for the home")


HIDDEN = "two workers that do not see the home"
VERSION = "two workers with another numpy"
CERTIFICATE = "another certificate than that of the cluster"
PLAIN = "address without TLS"


def tls() -> Iterator[Fault]:
    for what in ("two workers, shared home", HIDDEN, CERTIFICATE, PLAIN):
        yield from on_cluster(True, what)


def dask() -> Iterator[Fault]:
    for what in ("two workers, shared home", HIDDEN, VERSION):
        yield from on_cluster(False, what)


GROUPS = {
    "files": failing_files,
    "clock": clock,
    "deleted": deleted,
    "locked": locked,
    "memory": memory,
    "dask": dask,
    "tls": tls,
}


# ---- the table -------------------------------------------------------------------------------------------------------


class Table:
    """Runs faults in homes of one folder and prints a row each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.study, self.first = folder / "study.toml", folder / "first.toml"
        self.study.write_text(STUDY)
        self.first.write_text(STUDY.replace("[22, 37]", "[22]"))
        whole = folder / "home-whole"
        code, lines = run(Fault("", ""), self.study, whole)
        if code != "0":
            raise SystemExit("\n".join(["the undisturbed run has failed:", *lines]))
        self.expected = metrics(whole), store(whole)

    def row(self, fault: Fault) -> str:
        """Run with a fault, then without it, and return the row."""
        home = self.folder / f"home-{self.count}"
        self.count += 1
        if fault.complete:
            run(Fault("", ""), self.first, home)
        code, lines = run(fault, self.study, home)
        cells = [f"{code}: {message(lines, home)}", kept(home)]
        again, after = run(Fault("", ""), self.study, home)
        same = (metrics(home), store(home)) == self.expected
        cells.append("same" if same and again == "0" else f"**differs** ({again}: {message(after, home)})")
        if "traceback" in code or "hang" in code:
            print(*lines, sep="\n", file=sys.stderr)
        return f"| {fault.name} | {fault.how} | {' | '.join(cells)} |"


def load_modules() -> None:
    """Import here what every run needs, so that forked processes have it."""
    import_module("torch")
    import_module("unseen.core.extras").ensure_torchvision()
    for name in ("timm", "onnxruntime", "sklearn.linear_model", "unseen.cli.application", "unseen.study"):
        import_module(name)


def main() -> int:
    """Print the table; the exit code is 1 if there is a traceback, a hang or a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=f"some of {', '.join(GROUPS)}")
    groups = parser.parse_args().groups or [*GROUPS]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "FAULT_LIBRARY" not in os.environ:
            library = str(folder / LIBRARY)
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, str(SOURCE), "-ldl"], check=True)
            environment = {**os.environ, "LD_PRELOAD": library, "FAULT_LIBRARY": library}
            return subprocess.run([sys.executable, "-m", "tools.run_faults", *groups], env=environment).returncode
        load_modules()
        table = Table(folder)
        print(HEADER, "|---|---|---|---|---|", sep="\n", flush=True)
        bad = 0
        for group in groups:
            for fault in GROUPS[group]():
                row = table.row(fault)
                bad += "**" in row
                print(row, flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""Run every example of README and docs in the order of the page: Python code and commands.

A page fails if an example raises an exception or a warning, if a command fails, if a cell of a study fails, or if an
example prints other text than the page shows. Commands that are not run are still parsed: the command and its options
must exist.

Each page runs in its own folder, which contains the photographs, the checkpoint and the lists that pages mention. All
pages share one home folder. `tests/docs_examples.toml` lists what is replaced, not run or saved to a file.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "tools" / "check_docs.py").is_file():
    pytest.skip("not a source checkout: there are no pages to check", allow_module_level=True)


def load_tool() -> ModuleType:
    spec = spec_from_file_location("check_docs", ROOT / "tools" / "check_docs.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["check_docs"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()
WITH_EXAMPLES = [page for page in TOOL.PAGES if any(b.language == "python" or b.commands for b in TOOL.blocks(page))]


PRODUCTS = ("boot", "sandal", "tennis shoe", "trench coat", "shirt", "armchair", "folding chair", "table")

#: Lists that pages speak of as the reader's own.
FILES = {
    "classes.txt": ["zebra", "bobcat", "walrus"],
    "testclasses.txt": ["zebra", "bobcat", "walrus", "horse"],
    "seen.txt": ["running shoe", "parka"],
    "counts.csv": ["concept,count", *(f"{name},900" for name in PRODUCTS)],
    "plants.csv": [
        "image,height,tags",
        *(
            f"photos/class{c}/{n:03d}.png,{c + n / 10},{'tall|' * (c > 1)}{'green' if n % 2 else 'dry'}"
            for c in range(4)
            for n in range(10)
        ),
    ],
    "ontology.csv": [
        "child,parent",
        *(f"{kind},product" for kind in ("shoe", "coat", "chair")),
        *(f"{kind},shoe" for kind in ("boot", "sandal", "running shoe", "tennis shoe")),
        *("parka,coat", "trench coat,coat", "armchair,chair"),
    ],
}


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory, make_folder: Callable[..., Path], small_model: str) -> Path:
    """A home folder with the results of a small study called demo."""
    from unseen import Study, run_study

    home = tmp_path_factory.mktemp("home")
    images = make_folder(tmp_path_factory.mktemp("images"), classes=3, per_class=6)
    run_study(Study("demo", (small_model,), (f"folder:{images}",), {"probe": {"seeds": 2, "solver": "ncm"}}), home)
    return home


@pytest.fixture
def folder(
    tmp_path: Path, shared_home: Path, make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """What a reader has: photographs in a folder per class, a checkpoint, a list of classes."""
    import torch

    from unseen import load_backbone

    monkeypatch.setenv("UNSEEN_HOME", str(shared_home))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))  # answers to questions
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "photos", classes=4, per_class=10)
    named = sorted(make_folder(tmp_path / "products", classes=10, per_class=5).iterdir())
    for path, name in zip(named, (*PRODUCTS, "running shoe", "parka"), strict=True):
        path.rename(tmp_path / "products" / name)
    torch.save(load_backbone("random:test_resnet").module.state_dict(), tmp_path / "mine.pth")
    for name, lines in FILES.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def run_command(line: str, monkeypatch: pytest.MonkeyPatch | None = None) -> str:
    """Return the problem of a command, or "". With `monkeypatch` it is only parsed: its name and options must exist."""
    import typer

    from unseen.cli import main

    if re.fullmatch(r"python3 -m venv \.venv && source \.venv/bin/activate|cd unseen", line):
        return ""  # how any environment begins
    words, target = shlex.split(line.partition(" | ")[0].partition(" > ")[0]), line.partition(" > ")[2]
    if words == ["pip", "install", "torch", "torchvision", "--index-url", "https://download.pytorch.org/whl/cpu"]:
        return ""
    if words[:2] == ["pip", "install"]:
        asked = re.fullmatch(r"(?:\.|unseen)\[([\w,]+)\]", words[2])
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        return "" if asked and set(asked[1].split(",")) <= set(known) else "there are no such extras"
    if words[0] == "make":
        targets = (ROOT / "Makefile").read_text()
        return "" if f"\n{words[1]}:" in targets else f"make has no target {words[1]}"
    if words[0] != "unseen":
        return "it is not a command of this package: mark the block as not run"
    if monkeypatch is not None:
        with monkeypatch.context() as patched:
            patched.setattr(typer.core.TyperCommand, "invoke", lambda *_: None)
            code = main(words[1:])
    elif target:
        with Path(target.strip()).open("w") as file, contextlib.redirect_stdout(file):
            code = main(words[1:])
    else:
        code = main(words[1:])
    return "" if not code else f"exit code {code}"


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(
    page: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: list[str] = []
    module = ModuleType("page")  # functions of a page are found by their name, as those of any module
    monkeypatch.setitem(sys.modules, "page", module)
    begun = last_results(folder)
    for block in TOOL.blocks(page, replaced=True):
        if block.language == "output":
            # The demo is compared by `tools/check_docs.py --demo`, the number of tests by a test below.
            if not TOOL.is_demo_output(block) and not TOOL.is_suite_output(block):
                wrong += TOOL.output_problems(block.text, capsys.readouterr().out, block.line)
            continue
        capsys.readouterr()
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text)
        elif block.language == "python" and not block.not_run:
            code = compile("\n" * block.line + block.text, str(page), "exec")
            try:
                exec(code, vars(module))
            except Exception as error:  # noqa: BLE001 - every exception of an example is reported with the others
                wrong.append(f"line {block.line}: {type(error).__name__}: {error}")
        for line in block.commands:
            if block.not_run and not line.startswith("unseen "):
                continue
            if problem := run_command(line, monkeypatch if block.not_run else None):
                printed = capsys.readouterr()
                last = (printed.err or printed.out).strip().splitlines()[-1:]
                wrong.append(f"line {block.line}: {line}: {problem}: {' '.join(last)}")
    wrong += failed_cells(folder, begun)
    assert not wrong, "\n".join(wrong)


#: Texts to replace in the examples of `--help`, in this order, by smaller ones.
SMALLER = {
    "timm:resnet50 timm:vit_small_patch16_224 mine.pth": "timm:resnet50 random:test_vit?size=64",
    "timm:resnet50 mine.pth": "timm:resnet50 mine.pth?arch=timm:test_resnet&size=64",
    "'timm:*dino*'": "random:test_resnet?size=64",
    "timm:resnet50": "random:test_resnet?size=64",
    "timm:resnet18": "random:test_resnet?size=64",
    "packaged:efficientnet-lite0": "random:test_resnet?size=64",
    "packaged:efficientnet-lite1": "random:test_vit?size=64",
    "cog:resnet50": "random:test_resnet",
    "cog run photos/": "cog run products/ --ontology ontology.csv --seen seen.txt --drop-unknown --levels 2 --size 2"
    " --shots all",
    "cog run --data packaged:emoji": "cog run --data packaged:emoji?classes=150&per_class=2 --levels 2 --seeds 1",
    "rank photos/": "rank photos/ --scores logme",
    "run study.toml": "run demo --dry-run",
    "run packaged:emoji": "run packaged:emoji?classes=60 --grid quick",
    "procedural:shapes-count": "procedural:shapes-count?train=32&val=8&test=16 --steps 4",
    "packaged:grocery": "packaged:grocery?labels=coarse&per_class=4",
    "--models mine.pth --yes": "--models random:test_vit?size=64 --yes",
    "--methods ESZSL": "--methods ESZSL SAE",
    "timm:*": "random:*",
    "1a2b3c4d": "ID",
}
#: Examples of `--help` that tests/cli/test_help.py only parses, with the reason.
ONLY_PARSED = {
    "unseen demo": "it takes minutes; CI runs it as a step of its own",
    "unseen cog finetune --models": "minutes of training",
    "unseen cog chart": "it needs a study on 21,841 concepts or the run that the example names",
    "unseen cog check": "it needs ImageNet",
    "unseen cog noise": "it needs ids of concepts, and minutes",
    "unseen zsl run xlsa17": "it needs the data of the paper",
    "unseen zsl look xlsa17": "it needs the data of the paper",
    "unseen cog levels": "it needs the counts of ImageNet-21K; docs/concepts.md runs it on an ontology",
    "unseen check": "docs/howto/own-data.md runs it",
    "unseen clip": "it needs weights of CLIP",
    "unseen vtab compare": "it needs results on tasks of VTAB",
    "unseen vtab run --tasks": "it needs the data of the task",
    "unseen vtab fetch": "it downloads data",
    "unseen report --figures": "docs/howto/paper.md runs it",
    "unseen features rm": "other tests use the features",
    "unseen results forget --benchmark": "other tests use the results",
    "unseen ls models --source timm": "a list of 1,500 names; docs/backbones.md mentions it",
}


@pytest.mark.slow
def test_examples_of_help_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from unseen.cli.application import examples
    from unseen.results import ResultsDatabase

    lines = [line for pair in examples().values() for line in pair]
    for beginning in ONLY_PARSED:
        assert any(line.startswith(beginning) for line in lines), beginning
    (folder / "data").mkdir()
    for home in ("theirs", "backup"):
        (folder / home).symlink_to(databases(folder)[0].parent)
    wrong, begun = [], last_results(folder)
    # Commands that store results come first, and those that remove them last.
    order = sorted(lines, key=lambda line: (" forget" in line or " repair" in line, "run " not in line[:16]))
    for line in sorted(order, key=lambda line: not line.startswith(("unseen probe", "unseen zsl run"))):
        if line.startswith(tuple(ONLY_PARSED)):
            continue
        small = line
        for whole, text in SMALLER.items():
            small = small.replace(whole, f"'{text}'" if "?" in text and " " not in text else text)
        if " rerun " in small:
            with ResultsDatabase(databases(folder)[0], read_only=True) as database:
                small = small.replace("ID", database.latest(benchmark="probe")[-1].cell.id)
        if problem := run_command(small):
            printed = capsys.readouterr()
            wrong.append(f"{small}: {problem}: {(printed.err or printed.out).strip().splitlines()[-1:]}")
    wrong += failed_cells(folder, begun)
    assert not wrong, "\n".join(wrong)


def databases(folder: Path) -> list[Path]:
    """Return the results databases that a page can write to: that of the home folder and those in its own folder."""
    return [Path(os.environ["UNSEEN_HOME"]) / "results.sqlite", *sorted(folder.rglob("results.sqlite"))]


def last_results(folder: Path) -> dict[Path, int]:
    from unseen.results import ResultsDatabase

    last = {}
    for path in databases(folder):
        with ResultsDatabase(path) as database:
            last[path] = database.last()
    return last


def failed_cells(folder: Path, since: dict[Path, int]) -> list[str]:
    """Return the cells that failed since then, with their reasons."""
    from unseen.results import ResultsDatabase

    failed = []
    for path in databases(folder):
        with ResultsDatabase(path) as database:
            failed += [
                f"failed cell: {result.cell.benchmark} of {result.cell.model} on {result.cell.dataset}: {result.error}"
                for result in database.latest()
                if not result.ok and database.arrived([result.cell], since.get(path, 0))
            ]
    return failed


def test_a_page_that_shows_other_output_fails() -> None:
    assert TOOL.output_problems("top-1 ... %\n", "top-1 71.3 %\n", 1) == []
    assert TOOL.output_problems("top-1 ... %\n", "top-1 71.3 %\nmore\n", 1) != []
    assert TOOL.output_problems("first\n...\nlast\n", "first\na\nb\nlast  \n", 1) == []
    assert TOOL.output_problems("first\n...\n", "first\n", 1) == []
    assert TOOL.output_problems("first\n...\nlast\n", "first\na\nb\n", 1) != []
    row = "model  top-1 (%)\n────\na  91.4 [81.9, 96.8]\n58 test images; 36 ± 6 %\n"
    assert TOOL.output_problems(row, row.replace("91.4", " 89.7").replace("36 ±", "37\n±"), 1) == []
    for other in (row.replace("91.4", "94.0"), row.replace("58 ", "59 "), row.replace("36 ±", "39 ±"), row + "b\n"):
        assert TOOL.output_problems(row, other, 1) != []
    assert TOOL.output_problems("logme 0.0300", "logme 0.0310", 1) == []
    assert TOOL.output_problems("logme 0.0300", "logme 0.0330", 1) != []
    assert "but the example printed\n{}" in TOOL.output_problems("{'top1': ...}\n", "{}\n", 7)[0]


@pytest.mark.slow
def test_a_page_with_a_failing_cell_fails(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = folder / "page.md"
    page.write_text(
        "```python\nfrom unseen import Study, run_study\n\n"
        'broken = Study("broken", ("mine.pth?arch=timm:test_vit",), ("photos/",), {"probe": {"seeds": 1}})\n'
        'run_study(broken, on_error="ignore")\n```\n'
    )
    with pytest.raises(AssertionError, match="failed cell: probe of file:"):
        test_examples_run(page, folder, capsys, monkeypatch)


def test_few_examples_are_left_out_and_each_says_why() -> None:
    left_out = [block for page in TOOL.PAGES for block in TOOL.blocks(page) if block.not_run]
    assert len(left_out) <= TOOL.MOST_NOT_RUN
    assert all(len(block.not_run) > 10 for block in left_out)


def test_pages_have_nothing_else_wrong() -> None:
    assert [f"{page.name}: {problem}" for page in TOOL.PAGES for problem in TOOL.problems(page)] == []


def test_the_tool_finds_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "[gone](nowhere.md)\n\n```python\nfrom unseen import nothing_such\n```\n\n"
        "```bash\nunseen demo  # all of it\n```\n\n```toml\n# study.toml\nmodels = [\n```\n"
    )
    links, names, study = TOOL.problems(page)
    assert "nowhere.md" in links and "unseen has no nothing_such" in names and "TOML" in study
    setup = TOOL.Setup({"nothing": "something"}, {"unseen demo": "it would take a week"}, {"from": "code.py"})
    first, second, third = TOOL.blocks(page, replaced=True, setup=setup)
    assert (second.not_run, second.commands) == ("it would take a week", ["unseen demo"])
    assert (first.line, first.file, third.file) == (3, "code.py", "study.toml")
    assert "something_such" in first.text
    assert TOOL.setup_problems(page, setup) == []
    wrong = TOOL.Setup({"nowhere": "x"}, {}, {})
    assert TOOL.setup_problems(page, wrong) == ["tests replace 'nowhere', which is in no example"]
    assert "no example begins with 'unseen run'" in TOOL.setup_problems(page, TOOL.Setup({}, {"unseen run": "x"}, {}))
    page.write_text("<!-- not run: it would take a week -->\n```bash\nunseen demo\n```\n")
    assert TOOL.problems(page) == ["instructions for tests belong into tests/docs_examples.toml"]


def test_long_lines_of_prose_are_wrapped_and_nothing_else() -> None:
    long, table = "word " * 30, "| a |\n|---|\n| " + "b" * 200 + " |\n"
    fenced = f"```bash\n{long}\n```\n"
    page = f"# {long}\n\n- {long}- 2. minus\n- short\n\n{table}\n{fenced}\nshort\nlines\n"
    wrapped = TOOL.wrap(page)
    assert wrapped.split() == page.split() and TOOL.wrap(wrapped) == wrapped
    assert table in wrapped and fenced in wrapped and "\nshort\nlines\n" in wrapped and "\n- short\n" in wrapped
    item = wrapped.partition("\n\n")[2].partition("\n- short")[0].splitlines()
    assert len(item) == 2 and item[1].startswith("  word") and max(map(len, item)) <= 120, "no new list item"


def test_names_of_the_reference_exist(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("::: unseen.study.Study\n::: unseen.study.nothing_such\n::: unseen.nothing_such.Study\n")
    assert TOOL.problems(page) == [
        "there is no unseen.study.nothing_such",
        "there is no unseen.nothing_such.Study",
    ]


def test_every_setup_belongs_to_a_page() -> None:
    pages = {str(page.relative_to(ROOT)) for page in TOOL.PAGES}
    assert set(tomllib.loads(TOOL.SETUPS.read_text(encoding="utf-8"))) - pages == set()


def test_links_of_the_readme_lead_to_pages() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"(?<!!)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(links) > 4
    for link in links:
        assert link.startswith("https://github.com/") or (ROOT / link.partition("#")[0]).exists(), link


def test_the_readme_is_short_and_its_inline_commands_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    from unseen.cli.application import load_command

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    commands = [found for found in re.findall(r"`(unseen [^`]+)`", text.replace("\n", " ")) if " A B" not in found]
    assert len(commands) >= 8
    for command in commands:
        if command.startswith("unseen results"):  # a group that is a command itself
            load_command("results").make_context("results", shlex.split(command)[2:])
        else:
            assert not run_command(command, monkeypatch), command


def test_the_reference_has_every_public_name() -> None:
    import unseen

    text = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "api").glob("*.md")))
    missing = [name for name in unseen.__all__ if not re.search(rf"[.`]{name}\b", text)]
    assert missing == []


def test_the_navigation_names_every_page() -> None:
    """tools/docs_hooks.py adds other pages under "More"; this test finds them earlier."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r": ([\w/-]+\.md)\b", text))
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert named - there == {"contributing.md", "changelog.md"}
    assert {page for page in there - named if not page.startswith("adr/")} == set()


def test_measured_tables_name_their_source(tmp_path: Path) -> None:
    table = "| model | top-1 |\n|---|---|\n| a | 71.3 ± 0.2 |\n| b | 70.0 |\n"
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n<!-- made by: python tools/nothing.py -->\n{table}\n## Other\n\nwords\n\n{table}")
    gone, bare = TOOL.table_problems(page)
    assert "line 4: there is no file tools/nothing.py" in gone
    assert "line 13: name the source" in bare
    page.write_text("| option | |\n|---|---|\n| `--levels 3` | so many levels |\n")
    assert TOOL.table_problems(page) == []


def test_tables_that_commands_make_are_compared_by_a_test() -> None:
    """A test names the command of every table that a command writes."""
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    made = {
        table.source
        for page in TOOL.PAGES
        for table in TOOL.measured_tables(page.read_text(encoding="utf-8"))
        if table.kind in ("made by", "table") and table.source
    }
    assert made
    assert [
        source
        for source in made
        if not re.search(rf'\b{Path(source).stem}(\.py|")|import {Path(source).stem}\b', tests)
    ] == []


def test_readme_shows_the_last_line_of_the_test_suite(request: pytest.FixtureRequest) -> None:
    (block,) = (block for block in TOOL.blocks(ROOT / "README.md") if TOOL.is_suite_output(block))
    shown = re.search(r"([\d,]+) passed, \d+ skipped in \d+ min", block.text)
    assert shown is not None
    collected = request.session.testscollected
    if collected < 4_000:
        pytest.skip("only a part of the suite runs")
    assert int(shown[1].replace(",", "")) == pytest.approx(collected, rel=0.03)

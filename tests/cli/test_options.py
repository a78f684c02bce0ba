"""Commands made from benchmarks: every field is an option, every option counts, and words mean the same everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from unseen.benchmarks import BENCHMARKS
from unseen.cli import main
from unseen.cli.application import Fields, split_names, spread_lists
from unseen.concepts import filters_for, imagenet_1k, imagenet_21k, load_wordnet, run_funnel
from unseen.core.identity import choices_of, is_many, kinds_of
from unseen.features import Extraction

COMMANDS = {
    "probe": ["probe"],
    "cog": ["cog", "run"],
    "cog-finetune": ["cog", "finetune"],
    "zsl": ["zsl", "run"],
    "vtab": ["vtab", "run"],
    "rank": ["rank"],
}
VOCABULARY = (
    "--data", "--models", "--study", "--device", "--precision", "--engine", "--workers", "--scheduler", "--output",
    "--json", "--quiet", "--dry-run", "--home",
)  # fmt: skip

#: Another value of a field that is a text, or whose neighbour is not allowed.
OTHER = {
    "layer": "logits", "layers": "logits", "measure": "wu-palmer", "rerank": "resnik", "seen": "seen.txt", "size": "1",
    "ontology": "edges.csv", "methods": "SAE", "split": "SS", "embedding": "embedding.csv", "test_on": "others/",
    "vectors": "vectors.txt", "device": "cpu", "graphs": "graphs", "scores": "hscore", "calibration": "0.5",
    "share": "0.4", "seeds": "7,",
}  # fmt: skip
OTHER_OF = {
    ("cog", "levels"): "3",
    ("cog-finetune", "levels"): "3",
    ("cog", "size"): "2",
    ("cog-finetune", "size"): "2",
    ("rank", "split"): "test",
    ("rank", "sample"): "12",
    ("vtab", "feeders"): "2",
    ("vtab", "adaptation"): "bitfit",
    ("zsl", "templates"): "plain",
    ("zsl", "split_file"): "unseen.txt",
    ("zsl", "descriptions"): "none",
    ("clip", "descriptions"): "none",
    ("zsl", "class_names"): "open_clip",
    ("clip", "class_names"): "open_clip",
    ("zsl", "text_model"): "packaged:efficientnet-lite0",
}

#: What a field needs beside it to matter.
BESIDE = {
    ("cog", "vectors"): ["--measure", "text"],
    ("cog-finetune", "vectors"): ["--measure", "text"],
    ("cog", "ontology"): ["--seen", "seen.txt"],
    ("cog-finetune", "ontology"): ["--seen", "seen.txt"],
    ("vtab", "trials"): ["--adaptation", "finetune", "--sweep", "heavyweight"],
    ("vtab", "longest"): ["--adaptation", "finetune", "--sweep", "heavyweight"],
    ("vtab", "start"): ["--adaptation", "finetune"],
    ("vtab", "reduced_strides"): ["--patches"],
    ("vtab", "sweep"): ["--adaptation", "finetune"],
    ("vtab", "micro_batch"): ["--adaptation", "finetune"],
    ("vtab", "selection_seeds"): ["--adaptation", "finetune"],
    ("vtab", "epochs"): ["--adaptation", "finetune", "--sweep", "peft-1k"],
    ("vtab", "adamw_rates"): ["--adaptation", "finetune", "--sweep", "peft-1k"],
    ("vtab", "weight_decays"): ["--adaptation", "finetune", "--sweep", "peft-1k"],
    ("zsl", "templates"): ["--embedding", "prompts"],
    ("zsl", "split_file"): ["--split", "all"],
    ("zsl", "descriptions"): ["--embedding", "prompts"],
    ("zsl", "class_names"): ["--embedding", "prompts"],
    ("zsl", "combine"): ["--embedding", "prompts", "--methods", "prompt"],
    ("zsl", "text_model"): ["--embedding", "prompts"],
    ("rank", "learning_rates"): ["--truth"],
    ("rank", "steps"): ["--truth"],
    ("rank", "batch_size"): ["--truth"],
    ("rank", "truth_seeds"): ["--truth"],
}


def field_cases() -> list[Any]:
    return [
        pytest.param(name, field, id=f"{name}-{field.name}")
        for name in COMMANDS
        for field in fields(BENCHMARKS.get(name))
        # `only` is for studies, and the command `rank` refuses the scores that train.
        if (name, field.name) != ("rank", "early_learning_rate") and field.name != "only"
    ]


def another(field: Field[Any], hint: Any, benchmark: str = "") -> str:
    """A value that is allowed and is not the default."""
    if found := OTHER_OF.get((benchmark, field.name)) or OTHER.get(field.name):
        return found
    if words := [word for word in choices_of(hint) if word != field.default]:
        return "3" if "all" in words or field.default == ("all",) else words[0]
    value = field.default[0] if is_many(hint) and field.default else field.default or 0
    return str(2 * value + 3 if int in kinds_of(hint) else value / 2)


@pytest.fixture
def place(
    tmp_path: Path,
    images: Path,
    make_folder: Callable[..., Path],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The current folder: images whose classes have ids, others, and files for options."""
    make_folder(tmp_path / "others", classes=16, per_class=2)
    (tmp_path / "wnids.tsv").write_text("class0\tn02128385\nclass1\tn02391049\nclass2\tn02084071\n")
    make_folder(tmp_path / "concepts", classes=16, per_class=4)
    wnids = concept_ids()
    (tmp_path / "concepts.tsv").write_text("".join(f"class{i}\t{wnid}\n" for i, wnid in enumerate(wnids)))
    (tmp_path / "seen.txt").write_text("\n".join(wnids[:3]) + "\n")
    (tmp_path / "unseen.txt").write_text("\n".join(wnids[4:8]) + "\n")
    (tmp_path / "edges.csv").write_text("child,parent\n" + "".join(f"{wnid},thing\n" for wnid in wnids))
    (tmp_path / "vectors.txt").write_text("bird 1 0\nplant 0 1\nused 1 1\n")
    (tmp_path / "embedding.csv").write_text("".join(f"class{i},{i},1\n" for i in range(16)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@cache
def concept_ids() -> tuple[str, ...]:
    """Four concepts of ImageNet-1K and twelve that may enter a level."""
    every, seen = imagenet_21k(), imagenet_1k()
    eligible = run_funnel(load_wordnet(), every, filters_for(load_wordnet(), every, seen)).concepts
    return *seen[::250], *eligible[::400][:12]


@pytest.fixture
def plan(place: Path, small_model: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, Any]]]:
    """The cells that a command line plans."""

    def cells(*arguments: str, data: str | None = None, models: bool = True) -> list[dict[str, Any]]:
        if data is None:
            folder, ids = ("concepts", "concepts.tsv") if arguments[0] in ("cog", "zsl") else ("images", "wnids.tsv")
            data = f"{folder}/?val=0.25&wnids={place / ids}"
        named = [data] if data else []
        chosen = ["--models", small_model] if models else []
        code = main([*arguments, "--dry-run", "--json", *chosen, *(["--data", *named] if named else [])])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return json.loads(captured.out)["cells"]  # type: ignore[no-any-return]

    return cells


def ids(cells: list[dict[str, Any]]) -> list[str]:
    return [cell["id"] for cell in cells]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_option(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*COMMANDS[name], "--help-all"]) == 0
    out = capsys.readouterr().out
    kind = BENCHMARKS.get(name)
    assert kind.info.command == " ".join(COMMANDS[name])
    own = {field.name for field in fields(kind)} - {"only"}
    for field in fields(kind):
        assert field.name == "only" or f"--{field.name.replace('_', '-')}" in out
        assert field.name == "only" or str(field.metadata["help"]).split()[0] in out
    for field in fields(Extraction):
        taken = field.name in own or field.name == "workers"
        assert f"--{'extraction-' if taken else ''}{field.name.replace('_', '-')}" in out
    for word in VOCABULARY:
        assert word in out
    assert "<bool>" not in out, "a flag takes no value"


@pytest.mark.parametrize(("name", "field"), field_cases())
def test_every_option_counts_or_is_neutral(
    name: str, field: Field[Any], plan: Callable[..., list[dict[str, Any]]], place: Path
) -> None:
    hints = get_type_hints(BENCHMARKS.get(name), include_extras=True)
    command = [*COMMANDS[name], *BESIDE.get((name, field.name), [])]
    option = Fields(BENCHMARKS.get(name), name, "").option_name(field.name)
    given = [option] if isinstance(field.default, bool) else [option, another(field, hints[field.name], name)]
    before, after = ids(plan(*command)), ids(plan(*command, *given))
    if field.metadata.get("neutral"):
        assert set(before) <= set(after)
    else:
        assert before != after


@pytest.mark.parametrize("field", fields(Extraction), ids=lambda field: field.name)
def test_every_extraction_setting_counts_or_is_neutral(
    field: Field[Any], plan: Callable[..., list[dict[str, Any]]]
) -> None:
    hints = get_type_hints(Extraction, include_extras=True)
    option = "--extraction-workers" if field.name == "workers" else f"--{field.name.replace('_', '-')}"
    before, after = ids(plan("probe")), ids(plan("probe", option, another(field, hints[field.name])))
    assert (before == after) is bool(field.metadata["neutral"])


def test_a_taken_name_is_said_in_full(plan: Callable[..., list[dict[str, Any]]]) -> None:
    plain, own = plan("vtab", "run"), plan("vtab", "run", "--batch-size", "64")
    assert {cell["parameters"]["batch_size"] for cell in plain} == {512}
    assert {cell["parameters"]["batch_size"] for cell in own} == {64}
    assert ids(plan("vtab", "run", "--extraction-batch-size", "64")) == ids(plain)


def test_names_in_three_forms(plan: Callable[..., list[dict[str, Any]]]) -> None:
    first, second = "random:test_resnet?size=64", "random:test_efficientnet?size=64"
    forms = (
        ["--models", first, second],
        ["--models", f"{first},{second}"],
        ["--models", first, "--models", second],
        [f"--models={first}", second],
    )
    found = [ids(plan("probe", *form, models=False)) for form in forms]
    assert len(found[0]) == 10
    assert all(other == found[0] for other in found)


def test_numbers_in_three_forms(plan: Callable[..., list[dict[str, Any]]]) -> None:
    forms = (["--shots", "1", "2", "all"], ["--shots", "1,2,all"], ["--shots", "1", "--shots", "2,all"])
    found = [plan("probe", *form) for form in forms]
    assert {cell["parameters"]["shots"] for cell in found[0]} == {1, 2, "all"}
    assert all(ids(other) == ids(found[0]) for other in found)


def test_seeds_are_a_count_or_named(plan: Callable[..., list[dict[str, Any]]]) -> None:
    def seeds(*given: str, command: str = "probe") -> list[int]:
        return [cell["parameters"]["seed"] for cell in plan(*command.split(), "--seeds", *given)]

    assert seeds("2") == [22, 37]
    assert seeds("22,37") == seeds("22", "37") == [22, 37]
    assert seeds("22,") == [22]
    assert seeds("7") == [22, 37, 45, 77, 93, 94, 95]
    assert seeds("2", command="vtab run") == [0, 1]


def test_data_is_an_argument_or_an_option(
    plan: Callable[..., list[dict[str, Any]]], place: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for data in ("images/", "images", f"folder:{place}/images", "./images"):
        assert ids(plan("probe", data, data="")) == ids(plan("probe", data=data))
    both = plan("probe", "images", "others", data="")
    assert {cell["dataset"] for cell in both} == {f"folder:{place}/images", f"folder:{place}/others"}


def test_json_is_all_that_is_printed(place: Path, small_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "images", "--models", small_model, "--seeds", "1", "--solver", "ncm", "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["study"], found["evaluated"], len(found["results"])) == ("probe", 1, 1)
    assert found["results"][0]["metrics"]["top1"] >= 0
    assert f"[1/1] probe: {small_model} on folder:{place}/images: 1 cell in " in captured.err
    assert "1 cell evaluated." in captured.err
    assert Path(found["report"]).is_file()
    assert main(["probe", "images", "--models", small_model, "--seeds", "1", "--solver", "ncm"]) == 0
    assert "0 cells evaluated, 1 cached." in capsys.readouterr().err


def test_one_line_counts_unreadable_images(place: Path, small_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted((place / "images").rglob("*.png"))[::2]:
        path.write_bytes(path.read_bytes()[:40])
    arguments = ["probe", "images", "--models", small_model, "--seeds", "1", "--solver", "ncm", "--workers", "2"]
    assert main(arguments) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "unreadable" in line]
    assert len(lines) == 1 and lines[0].startswith("Note: 12 unreadable images")


def test_files_are_relative_to_the_study_or_to_where_one_is(
    plan: Callable[..., list[dict[str, Any]]], place: Path, small_model: str, tmp_path: Path, monkeypatch: Any
) -> None:
    by_command = plan("cog", "run", "--seen", "seen.txt", "--shots", "all", "--seeds", "1", "--study", "x")
    folder = place / "studies"
    folder.mkdir()
    (folder / "seen.txt").write_bytes((place / "seen.txt").read_bytes())
    (folder / "study.toml").write_text(
        f'models = ["{small_model}"]\ndatasets = ["../concepts?val=0.25&wnids={place}/concepts.tsv"]\n'
        '[benchmarks.cog]\nseen = "seen.txt"\nseeds = 1\n'
    )
    monkeypatch.chdir(home := place / "others")
    by_study = plan("run", str(folder / "study.toml"), data="", models=False)
    assert ids(by_study) == ids(by_command)
    assert not (home / "seen.txt").exists()
    (folder / "seen.txt").write_text("\n".join(concept_ids()[:2]) + "\n")
    assert ids(plan("run", str(folder / "study.toml"), data="", models=False)) != ids(by_command)


def test_a_study_file_may_be_overruled_in_its_extraction(
    plan: Callable[..., list[dict[str, Any]]], place: Path, small_model: str
) -> None:
    (place / "study.toml").write_text(
        f'models = ["{small_model}"]\ndatasets = ["images"]\n[extraction]\nprecision = "bf16"\ndtype = "float16"\n'
    )
    cells = plan("run", "study.toml", "--precision", "fp32", data="", models=False)
    assert {cell["parameters"]["extraction"]["precision"] for cell in cells} == {"fp32"}
    assert {cell["parameters"]["extraction"]["dtype"] for cell in cells} == {"float16"}


def test_suites_and_kinds_are_expanded(plan: Callable[..., list[dict[str, Any]]]) -> None:
    mini = plan("vtab", "run", "--tasks", "mini", data="")
    assert len({cell["dataset"] for cell in mini}) == 6
    assert ids(mini) == ids(plan("vtab", "run", data=""))
    methods = {cell["parameters"]["method"] for cell in plan("zsl", "run", "--methods", "transductive")}
    assert methods == {"ALE-tran", "DSRL", "GFZSL-tran"}
    frozen = plan("cog", "finetune", "--measure", "resnik", "--levels", "2")
    assert {cell["benchmark"] for cell in frozen} == {"cog", "cog-finetune"}
    assert {cell["parameters"]["measure"] for cell in frozen} == {"resnik"}
    assert {cell["parameters"]["seed"] for cell in frozen} == {22}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["probe", "--models", "random:test_resnet"], "name the data"),
        (["probe", "images"], "name the models"),
        (["probe", "nowhere/", "--models", "random:test_resnet"], "nowhere"),
        (["probe", "images", "--models", "tim:resnet18"], "timm:resnet18"),
        (["probe", "images", "--models", "mine.pth"], "mine.pth"),
        (["probe", "images", "--models", "random:test_resnet", "--solver", "fats"], "Did you mean 'fast'"),
        (["probe", "images", "--models", "random:test_resnet", "--shots", "many"], "shots[0]"),
        (["probe", "images", "--models", "random:test_resnet", "--seeds", "0"], "seed"),
        (["probe", "images", "--models", "random:test_resnet", "--device", "gpu"], "device"),
        (["probe", "images", "--models", "random:test_resnet", "--workers", "0"], "--workers"),
        (["probe", "images", "--models", "random:test_resnet", "--engine", "slurm"], "slurm"),
        (["probe", "images", "--models", "random:test_resnet", "--scheduler", "tcp://x:1"], "--engine dask"),
        (["probe", "images", "--modles", "random:test_resnet"], "--models"),
        (["cog", "run", "images", "--models", "random:test_resnet"], "images-wnids.tsv lists them all"),
        (["vtab", "run", "images", "--models", "random:test_resnet"], "'val'"),
        (["zsl", "run", "images", "--models", "random:test_resnet", "--calibration", "much"], "auto"),
    ],
)
def test_mistakes_are_one_line_and_two(
    arguments: list[str], words: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--dry-run"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    # `cog run` classifies images, with progress lines, before it knows that the classes do not suffice.
    *progress, line = captured.err.splitlines()
    assert line.startswith("unseen: error: ") and words in line
    assert all(each.startswith("  packaged:efficientnet-lite0 on ") for each in progress)


@pytest.mark.parametrize(
    ("given", "spread"),
    [
        ("--models a b c --seed 3", "--models a --models b --models c --seed 3"),
        ("photos --models a --models b c", "photos --models a --models b --models c"),
        ("--models=a b", "--models=a --models b"),
        ("--workers 2 y", "--workers 2 y"),
        ("--models a b -- photos more", "--models a --models b -- photos more"),
        ("--models", "--models"),
    ],
)
def test_lists_are_spread(given: str, spread: str) -> None:
    assert spread_lists(given.split(), {"--models"}) == spread.split()


def test_a_path_with_a_comma_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b").mkdir()
    assert split_names(["a,b", "c,d", "folder:a,b?test=0.2"]) == ["a,b", "c", "d", "folder:a,b?test=0.2"]


def test_a_schedulers_file(tmp_path: Path) -> None:
    from unseen.cli.run import scheduler_address
    from unseen.core.errors import UsageError

    (tmp_path / "s.json").write_text('{"type": "Scheduler", "address": "tcp://10.0.0.1:8786"}')
    assert scheduler_address(str(tmp_path / "s.json")) == "tcp://10.0.0.1:8786"
    assert scheduler_address("tcp://host:8786") == "tcp://host:8786"
    (tmp_path / "s.json").write_text("{}")
    for bad in (tmp_path / "s.json", tmp_path / "none.json"):
        with pytest.raises(UsageError, match="--scheduler"):
            scheduler_address(str(bad))


PLUG_IN = '''
from dataclasses import dataclass
from typing import ClassVar
from unseen.benchmarks import Benchmark
from unseen.core.identity import option
from unseen.core.records import Result
from unseen.results.info import BenchmarkInfo


@dataclass(frozen=True)
class Mine(Benchmark):
    """Counts."""

    name: ClassVar[str] = "mine"
    info: ClassVar[BenchmarkInfo] = BenchmarkInfo(question="How many?", command="tally")

    depth: int = option(2, help="How deep.")
    workers: int = option(1, help="Of its own.")

    def evaluate(self, cells, bench):
        for cell in cells:
            yield Result(cell, {"top1": self.depth / 10})
'''


def test_a_plug_in_brings_its_command(tmp_path: Path, images: Path, home: Path, small_model: str) -> None:
    """An installed package: its benchmark is listed without being imported, and has a command of its own."""
    (tmp_path / "mine_benchmark.py").write_text(PLUG_IN)
    (tmp_path / "mine-1.0.dist-info").mkdir()
    (tmp_path / "mine-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (tmp_path / "mine-1.0.dist-info" / "entry_points.txt").write_text(
        "[unseen.benchmarks]\nmine = mine_benchmark:Mine\n"
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
            f"from unseen.cli import main\ncode = main({arguments!r})\n"
            "print('LOADED', 'mine_benchmark' in sys.modules, 'torch' in sys.modules, file=sys.stderr); sys.exit(code)"
        )
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    listed = run("--help")
    assert "mine" in listed.stdout
    assert "LOADED False False" in listed.stderr
    assert "--depth" in run("mine", "--help").stdout
    common = ("--models", small_model, "--json", "--depth", "5", "--mine-workers", "3")
    for name in ("mine", "tally"):
        done = run(name, str(images), *common)
        assert done.returncode == 0, done.stderr
        (result,) = json.loads(done.stdout)["results"]
        assert (result["metrics"], result["parameters"]["workers"]) == ({"top1": 0.5}, 3)
    assert run("mien").returncode == 2

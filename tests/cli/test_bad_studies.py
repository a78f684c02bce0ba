"""Studies that are ill-typed or impossible: one line that names the key, and exit code 2, before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.cli import main

#: What stands in the study file, and words of the answer, the wrong key first.
BAD = {
    "seeds are a text": ('[benchmarks.probe]\nseeds = "22"', ["seeds", "22"]),
    "a seed is a text": ('[benchmarks.probe]\nseeds = ["a"]', ["seeds[0]", "int", "'a'"]),
    "a seed is a fraction": ("[benchmarks.probe]\nseeds = [1.5]", ["seeds[0]", "int", "1.5"]),
    "seeds are true": ("[benchmarks.probe]\nseeds = true", ["seeds", "list"]),
    "no seed": ("[benchmarks.probe]\nseeds = []", ["seed"]),
    "a count of minus one": ("[benchmarks.probe]\nseeds = -1", ["seed"]),
    "no shot": ("[benchmarks.probe]\nshots = [0]", ["shots[0]", ">= 1"]),
    "shots that are no word": ('[benchmarks.probe]\nshots = ["some"]', ["shots[0]", "'some'", "all"]),
    "a solver that is not there": ('[benchmarks.probe]\nsolver = "fats"', ["solver", "Did you mean 'fast'"]),
    "a solver that is a list": ('[benchmarks.probe]\nsolver = ["fast"]', ["solver"]),
    "a layer that is a number": ("[benchmarks.probe]\nlayer = 3", ["layer", "str", "3"]),
    "an option that is not there": ("[benchmarks.probe]\nshot = [1]", ["shot", "Did you mean 'shots'"]),
    "a benchmark that is not there": ("[benchmarks.prob]", ["prob", "Did you mean 'probe'"]),
    "a benchmark that is not a table": ('[benchmarks]\nprobe = "fast"', ["[benchmarks.probe]", "table"]),
    "benchmarks that are a text": ('benchmarks = "probe"', ["benchmarks", "table"]),
    "no benchmark": ("[benchmarks]", ["benchmark"]),
    "a measure that is not there": ('[benchmarks.cog]\nmeasure = "lim"', ["measure", "Did you mean 'lin'"]),
    "no level": ("[benchmarks.cog]\nlevels = 0", ["levels", ">= 1"]),
    "levels that are a text": ('[benchmarks.cog]\nlevels = "five"', ["levels", "int", "'five'"]),
    "a seen list that is not there": ('[benchmarks.cog]\nseen = "none.txt"', ["none.txt"]),
    "an ontology that is not there": ('[benchmarks.cog]\nontology = "edges.csv"', ["edges.csv"]),
    "classes without ids": ("[benchmarks.cog]", ["has an id in the ontology"]),
    "rates that are a text": ('[benchmarks.cog-finetune]\nrates = "fast"', ["rates", "'fast'"]),
    "a rate of zero": ("[benchmarks.cog-finetune]\nrates = [0.0]", ["rates[0]", "> 0"]),
    "a grid that is not there": ('[benchmarks.zsl]\ngrid = "ful"', ["grid", "Did you mean 'full'"]),
    "a share of more than all": ("[benchmarks.zsl]\nshare = 1.5", ["share", "< 1"]),
    "a method that is not there": ('[benchmarks.zsl]\nmethods = ["ESZLS"]', ["ESZLS", "Did you mean 'ESZSL'"]),
    "a calibration that is a word": ('[benchmarks.zsl]\ncalibration = "much"', ["calibration", "auto"]),
    "a flag that is a text": ('[benchmarks.zsl]\nrobustness = "yes"', ["robustness", "bool"]),
    "a test set that is not there": ('[benchmarks.zsl]\ntest_on = "folder:none"', ["none"]),
    "an adaptation that is not there": ('[benchmarks.vtab]\nadaptation = "magic"', ["adaptation", "linear"]),
    "a batch that is a text": ('[benchmarks.vtab]\nbatch_size = "512"', ["batch_size", "int", "'512'"]),
    "steps below one": ("[benchmarks.vtab]\nsteps = [0]", ["steps[0]", ">= 1"]),
    "a search that is not for linear": ('[benchmarks.vtab]\nsweep = "heavyweight"', ["heavyweight"]),
    "a dataset without a validation split": ("[benchmarks.vtab]", ["'val'"]),
    "a precision that is not there": ('[extraction]\nprecision = "fp8"', ["precision", "fp16"]),
    "truncated that is not there": ('[extraction]\ntruncated = "nope"', ["truncated", "refuse"]),
    "a device that is not there": ('[extraction]\ndevice = "gpu"', ["device", "'gpu'"]),
    "threads below none": ("[extraction]\nworkers = -1", ["workers", ">= 0"]),
    "an extraction that is a text": ('extraction = "fast"', ["extraction", "table"]),
    "an extraction setting that is not there": ("[extraction]\nbatchsize = 8", ["batchsize", "batch_size"]),
    "a key that is not there": ('dataset = "photos"', ["dataset", "Did you mean 'datasets'"]),
    "a name that is a number": ("name = 3", ["name", "text"]),
    "a title that is a list": ('title = ["a"]', ["title", "text"]),
}


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["run", str(path), "--dry-run"])
    captured = capsys.readouterr()
    assert code == 2, captured
    assert captured.out == ""
    assert captured.err.startswith("unseen: error: ") and captured.err.count("\n") == 1, captured.err
    return captured.err


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_value_is_named(
    case: str, tmp_path: Path, images: Path, small_model: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, words = BAD[case]
    path = tmp_path / "study.toml"
    path.write_text(f'models = ["{small_model}"]\ndatasets = ["{images}"]\n{wrong}\n')
    message = refused(path, capsys)
    for word in words:
        assert word in message
    assert not home.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('models = 3\ndatasets = ["photos/"]', ["models"]),
        ('models = []\ndatasets = ["photos/"]', ["models"]),
        ('models = [3]\ndatasets = ["photos/"]', ["models"]),
        ('models = ["random:test_resnet"]', ["datasets must be a list of names"]),
        ('models = ["random:test_resnet", "random:test_resnet"]\ndatasets = ["images/"]', ["twice", "models"]),
        ('models = ["tim:resnet18"]\ndatasets = ["images/"]', ["'tim:resnet18'", "timm:resnet18"]),
        ('models = ["mine.pth"]\ndatasets = ["images/"]', ["mine.pth"]),
        ('models = ["random:test_resnet"]\ndatasets = ["photos/"]', ["photos"]),
        ('models = ["random:test_resnet"]\ndatasets = ["images/?sede=1"]', ["sede"]),
        ("models = [", ["TOML"]),
    ],
)
def test_wrong_names_are_found_before_the_run(
    text: str, words: list[str], tmp_path: Path, images: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    message = refused(path, capsys)
    for word in words:
        assert word in message

"""`unseen results --latex --markdown --bibtex`: whole documents that compile, true to what was run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from unseen.benchmarks.benchmark import references
from unseen.benchmarks.citations import _known, bibtex, method_paragraphs
from unseen.cli import main
from unseen.core.records import Cell, ModelCard, Result
from unseen.ranking.cards import score_cards
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.zeroshot.catalogue import method_cards

MODELS = {"packaged:efficientnet-lite0": 0.7, "random:tf_efficientnet_lite0": 0.2, "file:/x/my_net.pth?arch=a": 0.6}


def cells() -> list[Result]:
    found = []
    for model, base in MODELS.items():
        for seed in (22, 37):
            probe = {"layer": "pooled", "seed": seed, "shots": "all", "solver": "ridge", "validation": "drawn"}
            found.append(
                Result(
                    Cell("probe", model, "packaged:grocery", probe, "w+d", "1 ridge.1"),
                    {"top1": base + seed / 1000},
                    details={"test_images": 661},
                    environment={"unseen": "0.1.0"},
                )
            )
        for method, value in (("ESZSL", 0.3), ("SAE", 0.2)):
            zsl = {
                "method": method,
                "fold": "all",
                "split": "PS",
                "layer": "pooled",
                "embedding": "auto",
                "grid": "quick",
                "seed": 0,
            }
            found.append(
                Result(Cell("zsl", model, "folder:/secret/way/birds", zsl, "w+d", f"1 {method}.1"), {"zsl": value})
            )
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for result in cells():
            database.append("s", result)
    return tmp_path


def test_markdown_says_what_was_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--home", str(home), "--markdown", "-"]) == 0
    out = capsys.readouterr().out
    assert "| EfficientNet-Lite0 | 73.0 |" in out
    assert "tf\\_efficientnet\\_lite0, random weights" in out or "random weights |" in out
    assert "/secret/way" not in out
    assert "the ridge classifier, trained on all images per class" in out
    assert "(661 test images); seeds 22 and 37. Computed with unseen 0.1.0" in out
    assert "the methods ESZSL and SAE were fitted" in out


def test_a_parameter_that_no_sentence_names_is_stated() -> None:
    result = Result(Cell("probe", "m", "d", {"seed": 1, "odd": 3, "extraction": {"precision": "bf16"}}), {"top1": 0.5})
    ((text, papers),) = method_paragraphs([result], {})
    assert "odd 3" in text
    assert "Other settings: extraction precision bf16; odd 3." in text and "default" not in text
    usual = Result(Cell("probe", "m", "d", {"seed": 1, "square_root": False, "odd": 3}), {"top1": 0.5})
    ((text, _),) = method_paragraphs([usual], {})
    assert "Other settings: odd 3. All other settings have their default values." in text
    assert "{" not in text
    assert papers == ("cog",)


def test_bibtex_names_each_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--home", str(home), "--bibtex", "-"]) == 0
    out = capsys.readouterr().out
    keys = re.findall(r"@\w+\{(\w+),", out)
    assert len(keys) == len(set(keys))
    assert {"unseen", "cog", "gbu", "eszsl", "sae", "efficientnet", "grocery"} <= set(keys)
    assert "vtab" not in keys


def test_every_method_and_score_of_ours_has_an_entry() -> None:
    cited = {card.citation for card in (*method_cards(), *score_cards()) if card.citation}
    assert cited
    assert [citation for citation in sorted(cited) if _known(citation) is None] == []
    variants = [citation for entry in references().values() for citation in entry.get("variants", ())]
    assert len(variants) == len(set(variants))


def test_a_citation_that_is_a_line() -> None:
    card = ModelCard("x", citation="Nilsback & Zisserman, ICVGIP 2008")
    assert "note = {Nilsback \\& Zisserman, ICVGIP 2008}" in bibtex(
        cells()[:1], {"packaged:efficientnet-lite0": card}, {}
    )


def test_every_file_is_reported_and_one_goes_to_standard_output(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out" / "t.tex"
    assert main(["results", "--home", str(home), "--latex", str(target), "--csv", str(tmp_path / "t.csv")]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert f"Written to {target}." in err
    assert "t.csv." in err
    assert main(["results", "--home", str(home), "--latex", "-", "--markdown", "-"]) == 2
    assert "only one" in capsys.readouterr().err
    assert main(["results", "--home", str(home), "--latex", "-", "--metric", "top1"]) == 0


@pytest.mark.skipif(shutil.which("bibtex") is None, reason="bibtex is not installed (texlive-binaries)")
def test_the_whole_compiles(home: Path, tmp_path: Path) -> None:
    assert main(["results", "--home", str(home), "--latex", f"{tmp_path}/t.tex", "--bibtex", f"{tmp_path}/t.bib"]) == 0
    (tmp_path / "main.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\\input{t}"
        "\\bibliographystyle{plain}\\bibliography{t}\\end{document}\n"
    )
    latex = ["pdflatex", "-no-shell-escape", "-halt-on-error", "-interaction=nonstopmode", "main.tex"]
    for command in (latex, ["bibtex", "main"], latex, latex):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined" not in (tmp_path / "main.log").read_text(errors="replace")


def test_model_card(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--home", str(home), "--model-card", "-"]) == 0
    first, block, last = capsys.readouterr().out.split("---\n")
    (index,) = yaml.safe_load(block).values()
    assert (first, last) == ("", "")
    assert {"name", "results"} <= set(index[0])
    assert {"task", "dataset", "metrics"} <= set(index[0]["results"][0])

"""Loading by id, registering one's own, and plug-ins that are really installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.records import DatasetCard
from unseen.data import Dataset, DatasetSource, Options, Split, dataset_cards, load_dataset, register_dataset
from unseen.data.load import SOURCES


def tiny(variant: str = "plain") -> Dataset:
    """Two grey squares."""
    split = Split(["a", "b"], np.arange(2, dtype=np.int64), lambda i: Image.new("L", (2, 2), i), fingerprint=variant)
    return Dataset(DatasetCard("whatever"), ["dark", "light"], {"train": split, "test": split})


@pytest.fixture(autouse=True)
def _restore_registry() -> Iterator[None]:
    before = dict(SOURCES._targets)
    yield
    SOURCES._targets.clear()
    SOURCES._targets.update(before)


def test_one_function_and_one_line() -> None:
    register_dataset("mine")(tiny)
    dataset = load_dataset("mine")
    assert (dataset.id, dataset.features_id) == ("mine", "mine")
    assert (dataset.card.classes, dataset.card.images, dataset.card.splits) == (2, 4, ("train", "test"))
    assert load_dataset("mine:other").splits["train"].fingerprint == "other"
    assert load_dataset("mine:other").id == "mine:other"
    assert load_dataset("mine", variant="third").id == "mine?variant=third"
    card = next(card for card in dataset_cards() if card.id == "mine")
    assert card.notes == "Two grey squares."


def test_options_reach_a_function() -> None:
    @register_dataset("sized")
    def sized(*, size: str = "1") -> Dataset:
        assert size == "3"
        return tiny()

    assert load_dataset("sized?size=3").id == "sized?size=3"
    with pytest.raises(UsageError, match=r"no option 'sise'. Did you mean 'size'"):
        load_dataset("sized?sise=3")
    with pytest.raises(UsageError, match=r"takes other arguments.*too many positional"):
        load_dataset("sized:big")


def test_functions_that_cannot_be_called_or_return_something_else() -> None:
    @register_dataset("needy")
    def needy(variant: str) -> Dataset:
        return tiny(variant)

    @register_dataset("wrong")
    def wrong() -> int:
        return 3

    with pytest.raises(UsageError, match=r"takes other arguments.*'variant'.*needy:NAME"):
        load_dataset("needy")
    with pytest.raises(UsageError, match="returned int, not a Dataset"):
        load_dataset("wrong")


def test_a_source_may_be_an_object() -> None:
    class Source(DatasetSource):
        def cards(self) -> list[DatasetCard]:
            return [DatasetCard("obj:one")]

        def load(self, name: str, options: Options) -> Dataset:
            options.finish()
            return tiny(name)

    SOURCES.add("obj", Source())
    SOURCES.add("class", Source)
    assert load_dataset("obj:one").id == "obj:one"
    assert load_dataset("class:one").id == "class:one"
    assert "obj:one" in [card.id for card in dataset_cards()]
    with pytest.raises(UsageError, match="no option 'x'"):
        load_dataset("obj:one?x=1")


def test_selection_works_for_every_source_and_stays_in_the_id() -> None:
    register_dataset("mine")(tiny)
    dataset = load_dataset("mine?classes=1&seed=4")
    assert dataset.id == dataset.features_id == "mine?classes=1&seed=4"
    assert len(dataset.class_names) == len(dataset.splits["train"]) == 1
    with pytest.raises(UsageError, match="no option 'seed'"):
        load_dataset("mine?seed=4")  # nothing to draw
    with pytest.raises(UsageError, match="per_class='0' should be a whole number from 1 on"):
        load_dataset("mine?per_class=0")


def test_shuffled_labels_work_for_every_source_and_share_features() -> None:
    register_dataset("mine")(tiny)
    dataset = load_dataset("mine?shuffle_labels=1")
    assert (dataset.id, dataset.features_id) == ("mine?shuffle_labels=1", "mine")


def test_a_broken_plug_in_affects_no_other() -> None:
    class Raises(DatasetSource):
        def cards(self) -> list[DatasetCard]:
            raise RuntimeError("the disk\nis gone")

        def load(self, name: str, options: Options) -> Dataset:
            return tiny(name)

    SOURCES.add("gone", "no_such_package.data:Source")
    SOURCES.add("number", 42)
    SOURCES.add("raises", Raises)
    cards = {card.id: card for card in dataset_cards()}
    assert cards["gone"].notes == "cannot be loaded: No module named 'no_such_package'"
    assert "42 is neither a DatasetSource nor a function" in cards["number"].notes
    assert cards["raises"].notes == "cannot be loaded: the disk is gone"
    with pytest.raises(UnknownNameError, match="packaged:grocery"):
        load_dataset("packagd:grocery")
    with pytest.raises(UsageError, match="dataset source 'gone' cannot be loaded: No module"):
        load_dataset("gone:x")
    assert load_dataset("raises:x").id == "raises:x"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("packaged:grocry", "unknown packaged dataset 'grocry'. Did you mean 'grocery'"),
        ("packagd:grocery", "unknown dataset 'packagd:grocery'. Did you mean 'packaged:grocery'"),
        ("foldr:x", "Did you mean 'folder'"),
        ("grocery", "unknown dataset 'grocery'"),
    ],
)
def test_unknown_names_are_answered_with_near_ones(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        load_dataset(name)


def test_unknown_options_are_answered_with_near_ones() -> None:
    with pytest.raises(UsageError, match=r"no option 'label'. Did you mean 'labels'"):
        load_dataset("packaged:grocery?label=coarse")


@pytest.mark.parametrize("name", ["", "a:b", "a?b"])
def test_names_that_could_not_be_loaded_cannot_be_registered(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be registered"):
        register_dataset(name)


def test_every_card_has_an_id_and_loads_or_is_a_template() -> None:
    cards = dataset_cards()
    assert {"packaged:grocery", "packaged:emoji", "folder:PATH"} <= {card.id for card in cards}
    for card in cards:
        assert card.id and card.name
        if card.group == "packaged":
            loaded = load_dataset(card.id).card
            assert (loaded.id, loaded.classes, loaded.images, loaded.splits) == (
                card.id,
                card.classes,
                card.images,
                card.splits,
            )


def test_a_plug_in_by_entry_point(tmp_path: Path) -> None:
    info = tmp_path / "demo_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[unseen.datasets]\nsquares = demo_plugin:squares\nbroken = demo_plugin_missing:x\n"
    )
    (tmp_path / "demo_plugin.py").write_text(
        "import numpy as np\nfrom PIL import Image\n"
        "from unseen.data import Dataset, Split\nfrom unseen.core.records import DatasetCard\n"
        "def squares(side='2'):\n"
        "    '''Squares from a plug-in.'''\n"
        "    split = Split(['a'], np.zeros(1, np.int64), lambda i: Image.new('L', (int(side),) * 2), side)\n"
        "    return Dataset(DatasetCard('squares'), ['grey'], {'train': split, 'test': split})\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from unseen.data import load_dataset, dataset_cards\n"
        "from unseen.core.errors import UsageError\n"
        "d = load_dataset('squares:5'); print(d.id, d.split('train').open(0).size)\n"
        "print([c.notes for c in dataset_cards() if c.id in ('squares', 'broken')])\n"
        "try: load_dataset('broken')\nexcept UsageError as e: print(e)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "squares:5 (5, 5)"
    assert "Squares from a plug-in." in second
    assert "cannot be loaded: No module named 'demo_plugin_missing'" in second
    assert third.startswith("dataset source 'broken' cannot be loaded")


def test_plain_paths_are_taken_for_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(6):
        path = tmp_path / "photos" / ("cat", "dog")[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (i, 0, 0)).save(path)
    (tmp_path / "t.csv").write_text(
        "image,label\n" + "".join(f"photos/{('cat', 'dog')[i % 2]}/{i}.png,{i % 2}\n" for i in range(6))
    )
    monkeypatch.chdir(tmp_path)
    for name in ("photos", "photos/", "./photos", Path("photos"), tmp_path / "photos"):
        assert list(load_dataset(name).class_names) == ["cat", "dog"]
    assert load_dataset("photos").id == "folder:photos"
    assert len(load_dataset("photos?test=0.5").split("test")) == len(
        load_dataset(Path("photos"), test=0.5).split("test")
    )
    assert list(load_dataset("t.csv").class_names) == ["0", "1"]
    with pytest.raises(UnknownNameError, match="unknown dataset 'phots'"):
        load_dataset("phots")

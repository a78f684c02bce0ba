"""What the data of a CoG command become: the whole of ImageNet-CoG, or a folder whose classes have their synsets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unseen.concepts import ClassMapping

#: Options that cut levels anew; without them, the levels of ImageNet are those of its file.
_CUT_ANEW = ("levels", "size", "measure", "seen", "ontology")
_MOST_SHOWN, _MOST_SENSES = 10, 3


def imagenet_data(name: str, options: dict[str, Any], home: Path | None) -> str:
    """`imagenet?train=8` as the dataset of all its concepts; the levels are those of the file, unless asked otherwise.

    A file of levels that has no other concepts than the usual one is a view of what is extracted already.
    """
    from unseen.core.errors import DataError
    from unseen.core.files import at_home
    from unseen.core.files import home as home_folder
    from unseen.core.names import Name
    from unseen.core.options import resolve_file
    from unseen.data.sources.imagenet.cog import read_concepts
    from unseen.data.sources.imagenet.source import levels_file

    wanted = Name.parse(name)
    if wanted.scheme != "imagenet" or wanted.rest not in ("", "cog"):
        return name
    asked = str(options.get("levels", ""))
    given = resolve_file(asked, Path.cwd()) if asked and not asked.isdecimal() else ""
    with at_home(home_folder(home)):
        try:
            base = levels_file(wanted.options.get("levels"))
        except DataError:
            if not given:
                raise
            base = Path(given)
    if given and not set(read_concepts(given, gaps=False)) <= set(read_concepts(base)):
        base = Path(given)
    if not any(option in options for option in _CUT_ANEW):
        options["levels"] = str(base.resolve())
    return str(Name("imagenet", "cog", dict(sorted({**wanted.options, "levels": str(base.resolve())}.items()))))


def data_with_ids(name: str, options: Mapping[str, Any], home: Path | None) -> str:
    """A folder whose classes have no ids, with the mapping file that says them: made here, or found where one stands.

    The file is `FOLDER-wnids.tsv` in the current folder. It has a line for every class and is the user's: once it is
    there it is taken as it is, and only classes that it lacks are added.
    """
    from unseen.core.errors import DataError
    from unseen.core.files import at_home
    from unseen.core.files import home as home_folder
    from unseen.core.names import Name
    from unseen.data import load_dataset
    from unseen.data.load import resolve_dataset

    resolved = resolve_dataset(name, Path.cwd())
    wanted = Name.parse(resolved)
    if wanted.scheme != "folder" or "wnids" in wanted.options or options.get("ontology"):
        return name
    with at_home(home_folder(home)):
        dataset = load_dataset(resolved)
    if any(dataset.wnids):
        return name
    typed = Path(name.partition("?")[0].removeprefix("folder:"))  # a link has the name by which it was called
    path = Path.cwd() / f"{typed.name or Path(wanted.rest).name}-wnids.tsv"
    mapping = _mapped(path, [*dataset.class_names], str(options.get("seen", "imagenet-1k")))
    if not mapping.sure:
        raise DataError(
            f"no class of {resolved!r} has a synset that its name makes sure. {path.name} lists them all: write "
            "WordNet ids there and run again, or give an ontology of your own (--ontology)."
        )
    _tell(mapping, path)
    return str(Name.parse(resolved, {"wnids": path}))


def _mapped(path: Path, names: list[str], seen: str) -> ClassMapping:
    """The mapping of the classes, which is in the file afterwards."""
    from unseen.concepts import load_wordnet, map_classes, read_mapping, read_seen
    from unseen.concepts.mapping import OPEN
    from unseen.core.errors import DataError
    from unseen.data.listing import read_table

    wordnet = load_wordnet()
    _, trained = read_seen(seen, wordnet)
    if not path.exists():
        made = map_classes(names, seen=trained, wordnet=wordnet)
        made.write(path)
        return made
    try:
        known = read_table(path, names)
    except DataError as error:
        raise DataError(
            f"{error}. Move that file away to have the classes matched anew, or give ?wnids=FILE."
        ) from None
    settled = {name: wnid for name, wnid in read_mapping(path).items() if name in known}
    made = map_classes(names, seen=trained, mapping=settled, wordnet=wordnet)
    made = made.left_open(name for name, value in known.items() if value == OPEN)
    made.append(path, [name for name in names if name not in known])
    return made


def _tell(mapping: ClassMapping, path: Path) -> None:
    """What was matched, and a short table of what was not: the rest is in the file."""
    from rich.text import Text

    from unseen.cli.tables import console, print_table

    screen = console(error=True)
    screen.print(Text(f"{mapping.summary} {path.name} has them all; {_ADVICE if mapping.doubtful else 'edit it.'}"))
    rows = []
    for row in mapping.doubtful[:_MOST_SHOWN]:
        senses = [f"{sense.wnid} {sense.lemmas[0]} ({sense.relation})" for sense in row.senses[:_MOST_SENSES]]
        more = [f"and {len(row.senses) - _MOST_SENSES} more"] if len(row.senses) > _MOST_SENSES else []
        rows.append((row.match.name, mapping.reason(row), "; ".join([*senses, *more])))
    if rows:
        left = len(mapping.doubtful) - len(rows)
        caption = f"and {left} more in {path.name}" if left else ""
        print_table(("open class", "why", "may be"), rows, caption=caption, prose=("why", "may be"), error=True)


_ADVICE = "classes with ? stay out until you write an id, or - for none, and run again."

"""Without a connection, the error states in one line what the cache contains."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from unseen.core import extras
from unseen.core.errors import BackboneError, DataError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of a machine that is offline."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(extras, "cached_file", lambda repository, file, revision: tmp_path if file == "there" else None)
    monkeypatch.setattr(extras, "reachable", lambda: False)
    return tmp_path


def test_what_is_in_the_cache_is_there(cache: Path) -> None:
    (cache / "models--org--net").mkdir()
    (cache / "datasets--org--set").mkdir()
    assert extras.cached_repositories() == ["org/net"]
    assert extras.cached_repositories("dataset") == ["org/set"]
    extras.check_available("org/net", "")
    extras.check_available("org/set", "", kind="dataset")
    extras.check_available("org/other", "there")
    with pytest.raises(BackboneError, match=r"org/net is not in the cache.*In the cache: org/net\.$"):
        extras.check_available("org/net", "not there")


def test_what_is_missing_is_named_as_the_user_wrote_it(cache: Path) -> None:
    with pytest.raises(BackboneError, match=r"^org/net is not in the cache, and https://.* In the cache: nothing\.$"):
        extras.check_available("org/net", "")
    with pytest.raises(DataError, match=r"^hf:org/set is not in the cache"):
        extras.check_available("org/set", "", what="hf:org/set", kind="dataset")
    for number in range(6):
        (cache / f"models--org--{number}").mkdir()
    with pytest.raises(BackboneError, match=r"org/0, org/1, org/2, org/3, org/4, org/5\.$"):
        extras.check_available("org/net", "")
    (cache / "models--org--6").mkdir()
    with pytest.raises(BackboneError, match=r"org/5, \.\.\.\.$"):
        extras.check_available("org/net", "")


def test_a_hub_that_answers_is_asked(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "reachable", lambda: True)
    extras.check_available("org/net", "")
    extras.check_available("org/net", "not there")


@pytest.mark.parametrize("word", ["1", "True", "yes", "ON"])
def test_offline_by_the_environment(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", word)
    assert not extras.reachable.__wrapped__()


def test_an_address_without_a_server_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert not extras.reachable.__wrapped__()
    monkeypatch.setenv("HF_ENDPOINT", "no address")
    assert not extras.reachable.__wrapped__()


def test_a_hub_that_answers_anything_is_reached_and_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    from urllib.error import HTTPError

    waits: list[float] = []

    def answer(address: str, *, timeout: float) -> io.BytesIO:
        waits.append(timeout)
        if address.endswith("no"):
            raise HTTPError(address, 404, "gone", None, None)  # type: ignore[arg-type]
        return io.BytesIO()

    monkeypatch.setattr("urllib.request.urlopen", answer)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "0")
    for address in ("http://hub/yes", "http://hub/no"):
        monkeypatch.setenv("HF_ENDPOINT", address)
        assert extras.reachable.__wrapped__()
    assert len(waits) == 2 and min(waits) >= 1 and max(waits) <= 10
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "1")
    assert not extras.reachable.__wrapped__() and len(waits) == 2

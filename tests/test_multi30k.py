"""Reading Multi30k's files, and what is said when they are not right."""

import gzip

import pytest

from helpers.multi30k import DataError, load_multi30k

SPLITS = {"train": 5, "val": 2, "test_2016_flickr": 3}


@pytest.fixture(params=["plain", "gz"])
def folder(tmp_path, request):
    for name, count in SPLITS.items():
        for language in ("de", "en"):
            # The separator in the middle is a character, not the end of a line.
            lines = [f"{language} {name} {i}\u2028!" for i in range(count)]
            content = ("\n".join(lines) + "\n").encode()
            if request.param == "gz":
                (tmp_path / f"{name}.{language}.gz").write_bytes(gzip.compress(content))
            else:
                (tmp_path / f"{name}.{language}").write_bytes(content)
    return tmp_path


def test_the_three_splits_in_either_direction(folder):
    text = load_multi30k(folder)
    sizes = (len(text.train), len(text.validation), len(text.test))
    assert sizes == tuple(SPLITS.values())
    assert text.test[1] == (
        "de test_2016_flickr 1\u2028!",
        "en test_2016_flickr 1\u2028!",
    )
    assert load_multi30k(folder, source="en", target="de").test[1] == text.test[1][::-1]


def test_the_folder_may_come_from_the_environment(folder, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(folder))
    assert len(load_multi30k().train) == 5
    inner = folder / "multi30k"
    inner.mkdir()
    for path in list(folder.glob("*.*")):
        path.rename(inner / path.name)
    assert len(load_multi30k().train) == 5


def test_the_two_languages_must_differ(folder):
    with pytest.raises(DataError, match="both 'en': give two languages"):
        load_multi30k(folder, source="en")


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(DataError, match="nowhere does not exist"):
        load_multi30k(tmp_path / "nowhere")


def test_a_missing_file(folder):
    for path in folder.glob("val.en*"):
        path.unlink()
    with pytest.raises(DataError, match=r"neither val\.en nor val\.en\.gz"):
        load_multi30k(folder)


def test_a_language_that_is_not_there(folder):
    with pytest.raises(DataError, match=r"neither train\.fr nor"):
        load_multi30k(folder, source="fr")


def test_a_folder_may_hold_other_languages_and_test_sets(folder):
    for path in [*folder.glob("*.de*")]:
        name = path.name.replace(".de", ".uk").replace("test_2016_flickr", "test_mine")
        path.rename(folder / name)
    for path in [*folder.glob("test_2016_flickr.en*")]:
        path.rename(folder / path.name.replace("test_2016_flickr", "test_mine"))
    text = load_multi30k(folder, source="uk", test="test_mine")
    assert len(text.train) == 5 and len(text.test) == 3


def test_halves_of_different_length(folder):
    for path in folder.glob("val.en*"):
        path.unlink()
    (folder / "val.en").write_text("one line\n", "utf-8")
    with pytest.raises(DataError, match=r"val\.de has 2 lines, val\.en has 1"):
        load_multi30k(folder)


def test_a_file_cut_short(folder):
    content = gzip.compress(("a line of text\n" * 100).encode())
    for path in folder.glob("train.de*"):
        path.unlink()
    (folder / "train.de.gz").write_bytes(content[:-9])
    with pytest.raises(DataError, match="is damaged or cut short"):
        load_multi30k(folder)


def test_an_empty_file(folder):
    for path in folder.glob("train.de*"):
        path.unlink()
    (folder / "train.de").write_text("\n", "utf-8")
    with pytest.raises(DataError, match=r"train\.de is empty"):
        load_multi30k(folder)

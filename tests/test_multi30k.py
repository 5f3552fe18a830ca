"""Reading Multi30k's files, and what is said when they are not right."""

import gzip

import pytest

from helpers.multi30k import DataError, load_multi30k

SPLITS = {"train": 5, "val": 2, "test_2016_flickr": 3}


@pytest.fixture
def folder(tmp_path):
    """German files as they are, English ones packed."""
    for name, count in SPLITS.items():
        for language in ("de", "en"):
            # The separator in the middle is a character, not the end of a line.
            lines = [f"{language} {name} {i}\u2028!\n" for i in range(count)]
            content = "".join(lines).encode()
            if language == "de":
                (tmp_path / f"{name}.de").write_bytes(content)
            else:
                (tmp_path / f"{name}.en.gz").write_bytes(gzip.compress(content))
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


def test_a_folder_may_hold_other_languages_and_test_sets(folder):
    for path in [*folder.glob("*.de")]:
        path.rename(path.with_suffix(".uk"))
    for path in [*folder.glob("test_2016_flickr.*")]:
        path.rename(folder / path.name.replace("test_2016_flickr", "test_mine"))
    text = load_multi30k(folder, source="uk", test="test_mine")
    assert len(text.train) == 5 and len(text.test) == 3


PACKED = gzip.compress(("a line of text\n" * 100).encode())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("val.en.gz", None, r"neither val\.en nor val\.en\.gz"),
        ("val.en", b"one line\n", r"val\.de has 2 lines, val\.en has 1"),
        ("train.en.gz", PACKED[:-9], r"train\.en\.gz is damaged or cut short"),
        ("train.de", b"\n", r"train\.de is empty"),
    ],
    ids=["missing", "of other lengths", "cut short", "empty"],
)
def test_a_file_that_is_not_right(folder, name, content, message):
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_multi30k(folder)

"""Laws of `samples_from`: what becomes a request, in which order, and how what cannot is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from hami.bench import samples_from
from hami.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three files, a hidden one, and a folder with one more."""
    for name in ("b.bin", "a.bin", "c.txt", ".hidden", "deep/d.bin"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path


def write_lines(folder: Path, *lines: str) -> Path:
    path = folder / "requests.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_file_is_one_request_of_its_bytes(folder: Path) -> None:
    assert list(samples_from(folder / "a.bin")) == [{"data": b"a.bin"}]


def test_a_folder_gives_each_file_in_order_of_names(folder: Path) -> None:
    found = list(samples_from(folder, key="image"))

    assert found == [{"image": b"a.bin"}, {"image": b"b.bin"}, {"image": b"c.txt"}]


def test_a_pattern_gives_what_matches(folder: Path) -> None:
    assert [each["data"] for each in samples_from(f"{folder}/*.bin")] == [b"a.bin", b"b.bin"]
    deep = [each["data"] for each in samples_from(f"{folder}/**/*.bin")]
    assert deep == [b"a.bin", b"b.bin", b"deep/d.bin"]


def test_a_folder_whose_name_looks_like_a_pattern_is_a_folder(tmp_path: Path) -> None:
    odd = tmp_path / "odd[1]"
    odd.mkdir()
    (odd / "x").write_bytes(b"x")

    assert list(samples_from(odd)) == [{"data": b"x"}]


def test_lines_of_json_are_requests_as_they_are(folder: Path) -> None:
    path = write_lines(folder, '{"data": [1, 2], "k": {"file": "x", "other": 1}}', "", '{"data": null}')

    found = list(samples_from(path, key="unused"))

    assert found == [{"data": [1, 2], "k": {"file": "x", "other": 1}}, {"data": None}]


def test_a_value_that_names_a_file_becomes_its_bytes(folder: Path) -> None:
    absolute = folder / "b.bin"
    path = write_lines(folder, '{"data": {"file": "a.bin"}, "n": 1}', f'{{"data": {{"file": "{absolute}"}}}}')

    found = list(samples_from(path))

    assert found == [{"data": b"a.bin", "n": 1}, {"data": b"b.bin"}]


def test_the_first_ones_are_taken_in_the_given_order(folder: Path) -> None:
    assert [each["data"] for each in samples_from(folder, limit=2)] == [b"a.bin", b"b.bin"]


def test_a_random_sample_has_no_element_twice_and_is_the_same_for_a_seed(folder: Path) -> None:
    path = write_lines(folder, *(f'{{"data": {i}}}' for i in range(100)))

    def draw(seed: int) -> list[int]:
        return [each["data"] for each in samples_from(path, limit=10, order="random", seed=seed)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert len(set(draw(1))) == 10


def test_every_element_and_place_is_as_likely_as_any_other(folder: Path) -> None:
    path = write_lines(folder, *(f'{{"data": {i}}}' for i in range(6)))
    drawn: Counter[int] = Counter()
    first: Counter[int] = Counter()

    for seed in range(1200):
        sample = [each["data"] for each in samples_from(path, limit=2, order="random", seed=seed)]
        drawn.update(sample)
        first[sample[0]] += 1

    # Expected are 400 and 200, with standard deviations of 16 and 13.
    assert all(abs(drawn[i] - 400) < 70 for i in range(6))
    assert all(abs(first[i] - 200) < 55 for i in range(6))


def test_a_random_sample_of_fewer_elements_is_all_of_them(folder: Path) -> None:
    found = {each["data"] for each in samples_from(folder, order="random", seed=5)}

    assert found == {b"a.bin", b"b.bin", b"c.txt"}


def test_files_are_read_when_their_request_is_asked_for(folder: Path) -> None:
    samples = samples_from(folder)
    assert next(samples) == {"data": b"a.bin"}
    (folder / "b.bin").write_bytes(b"changed")

    assert next(samples) == {"data": b"changed"}


def test_a_file_that_goes_meanwhile_is_named(folder: Path) -> None:
    samples = samples_from(folder)
    (folder / "a.bin").unlink()

    with pytest.raises(ConfigError, match=r"a\.bin: load-sample: .*a\.bin` cannot be read: No such file"):
        next(samples)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json", "`{not json` is not JSON"),
        ("[1, 2]", "a line is an object, got `[1, 2]`"),
        ('{"data": {"file": 3}}', "`file` must be a path, got `3`"),
        ('{"data": {"file": "gone.jpg"}}', "gone.jpg` cannot be read: No such file"),
        ('{"data": {"file": "a\\u0000b"}}', "cannot be read"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_wrong_line_is_named_with_its_file_and_number(folder: Path, line: str, said: str) -> None:
    path = write_lines(folder, '{"data": 1}', line)

    with pytest.raises(ConfigError) as caught:
        list(samples_from(path))

    assert caught.value.where == f"{path}:2"
    assert caught.value.code == "load-sample"
    assert said in str(caught.value)


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"data": "\xff"}\n')

    with pytest.raises(ConfigError, match=r"x\.jsonl:1: load-sample: .* is not JSON"):
        list(samples_from(path))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", "there is no such file or folder"),
        ("*.gone", "no file matches the pattern"),
        ("empty", "the folder has no file"),
        ("empty.jsonl", "the file has no line"),
    ],
)
def test_nothing_to_read_is_an_error_at_once(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.jsonl").write_text("\n\n")

    with pytest.raises(ConfigError, match=said):
        samples_from(tmp_path / name)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"order": "radnom"}, "`order` must be `given` or `random`, got `'radnom'`"),
        ({"limit": 0}, "`limit` must be a whole number from 1, got `0`"),
        ({"limit": True}, "`limit` must be a whole number"),
    ],
)
def test_wrong_settings_are_refused_with_their_value(
    folder: Path, settings: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        samples_from(folder, **settings)  # type: ignore[arg-type]
    assert said in str(caught.value)

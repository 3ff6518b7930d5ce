"""A proposal written into the text of a file: the values change, all else stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from measured_cases import change

from hami.bench.toml_edit import edited, tuned_path
from hami.errors import ConfigError

TEXT = """\
# what it is for
imports = ["./a.py"]

[pixels]   # decode
backend = "Identity"
instance_num = 2 # one a core
next = "classify"

[ classify ]
backend = "S[A, B]"
max=4   # the model's limit
"""


def test_a_value_is_replaced_and_its_comment_stays() -> None:
    new = edited(TEXT, [change("classify.max", 16), change("pixels.instance_num", 1)])

    assert new == TEXT.replace("max=4 ", "max=16 ").replace("instance_num = 2", "instance_num = 1")


def test_a_key_that_is_missing_comes_below_the_header() -> None:
    new = edited(TEXT, [change("pixels.batching_timeout", 2.5)])

    assert new == TEXT.replace("# decode\n", "# decode\nbatching_timeout = 2.5\n")


def test_a_header_with_spaces_is_found() -> None:
    assert "[ classify ]\ninstance_num = 2\n" in edited(TEXT, [change("classify.instance_num", 2)])


def test_several_changes_of_one_node_all_arrive() -> None:
    new = edited(
        TEXT, [change("classify.max", 8), change("classify.instance_num", 2), change("pixels.max", 1)]
    )

    assert [
        len(re.findall(rf"^{line}", new, re.MULTILINE)) for line in ("max=8", "instance_num = 2", "max = 1")
    ] == [
        1,
        2,
        1,
    ]


def test_no_change_leaves_the_text_alone() -> None:
    assert edited(TEXT, []) == TEXT


def test_a_key_that_only_the_top_of_the_file_has_is_set_for_the_node_alone() -> None:
    text = 'max = 2\n[a]\nbackend = "A"\nnext = "b"\n[b]\nbackend = "B"'

    assert (
        edited(text, [change("b.max", 4)])
        == 'max = 2\n[a]\nbackend = "A"\nnext = "b"\n[b]\nmax = 4\nbackend = "B"'
    )


def test_a_file_without_tables_is_one_node() -> None:
    text = 'backend = """S[A,\n  B]"""  # both\nmax = 2\n'

    new = edited(text, [change("node.max", 4), change("node.instance_num", 3)])

    assert new == 'backend = """S[A,\n  B]"""  # both\ninstance_num = 3\nmax = 4\n'


def test_a_header_at_the_very_end_gets_its_line() -> None:
    assert edited("[a]", [change("a.max", 4)]) == "[a]\nmax = 4"


@pytest.mark.parametrize("text", ['a = {backend = "A"}\n', 'a.backend = "A"\n'])
def test_a_node_without_a_table_is_refused_with_the_line_to_write(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        edited(text, [change("a.max", 4)], "pipeline.toml")

    assert (caught.value.code, caught.value.where) == ("bench-no-table", "pipeline.toml")
    assert "`max = 4`" in caught.value.help


def test_a_key_of_an_inline_table_that_is_there_is_replaced() -> None:
    assert (
        edited('a = {backend = "A", max = 4}\n', [change("a.max", 16)]) == 'a = {backend = "A", max = 16}\n'
    )


def test_the_file_beside_keeps_the_name() -> None:
    assert tuned_path(Path("x/pipeline.toml")) == Path("x/pipeline.tuned.toml")

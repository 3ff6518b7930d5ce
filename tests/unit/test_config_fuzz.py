"""Any bytes in a file, and any dict, give a plan or an error of hami."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from hami.errors import ConfigError
from hami.plan import plan

NUM_SEEDS = max(int(os.environ.get("HAMI_FUZZ_EXAMPLES", "10000")) // 400, 1)
FILES_PER_SEED = 20

GOOD_FILE = """\
batching_timeout = 4            # top-level scalars are inherited by every node
output = "join"

[decode]
backend = "S[Identity, Add(1, times=2)]"
instance_num = 2
next = ["left", "right"]

[left]
backend = '''IoC[Pow;
  S[Forward[Pow], Reflect[post, Identity]]]'''
post = "Identity"
next = "join"

[right]
backend = "ForEach(target=one)"
next = "join"

[one]
backend = "OnnxInfer"
model = "${HAMI_MODEL:-m.onnx}"
max = 8

[join]
backend = "Identity"
map = "left[result:a],right[result:b],input[data:c]"
"""

PIECES = [
    *"[]{}(),;:=\"'#\\\n\t .$",
    *["1", "-1", "true", "nan", "2020-01-01", '"""', "'''", "[[a]]", "[a.b]", "\\u00e9", "é", "\0", "\ud800"],
    *[
        "${X}",
        "next",
        "map",
        "backend",
        "decode",
        "S[",
        "Identity",
        "{node_name}",
        "or = true\n",
        "max = 0\n",
    ],
]
VALUES: list[Any] = [
    *[None, True, 0, -1, 1.5, float("nan"), 10**30, "", "a", "a,b", "b[result:x]", "\ud800", [], ["b"], [1]],
    *[
        "S[Identity]",
        "ForEach(target=b)",
        "Pow",
        "A[",
        "${Q}",
        "Reflect[backend]",
        {},
        {"backend": "Pow"},
        {1: 2},
    ],
    *[object(), b"x"],
]
KEYS = [
    *["a", "b", "input", "backend", "next", "map", "or", "max", "min"],
    *["output", "fanout", "entrypoint", "x", "", "imports"],
]


def check(source: object) -> None:
    try:
        plan(source).to_core()
    except ConfigError as error:
        assert error.help, error
        assert error.where, error
        assert str(error).encode()


@pytest.mark.parametrize("seed", range(NUM_SEEDS))
def test_any_file_is_planned_or_refused(seed: int, tmp_path: Path) -> None:
    random_ = random.Random(seed)
    path = tmp_path / "pipeline.toml"
    for _ in range(FILES_PER_SEED):
        text = GOOD_FILE
        for _ in range(random_.randint(0, 4)):
            start, end = sorted(random_.randint(0, len(text)) for _ in range(2))
            end = min(end, start + random_.choice([0, 1, 1, 5, 1000]))
            text = text[:start] + random_.choice([*PIECES, text[start:end] * 2, ""]) + text[end:]
        content = text.encode("utf-8", "surrogatepass")
        if random_.random() < 0.1:
            at = random_.randint(0, len(content))
            content = content[:at] + random_.randbytes(3) + content[at:]
        path.write_bytes(content)
        check(path)


def random_dict(random_: random.Random, levels: int) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key in random_.sample(KEYS, random_.randint(0, 4)):
        is_node = levels and random_.random() < 0.6
        found[key] = random_dict(random_, levels - 1) if is_node else random_.choice(VALUES)
    return found


@pytest.mark.parametrize("seed", range(NUM_SEEDS))
def test_any_dict_is_planned_or_refused(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(FILES_PER_SEED):
        check(random_dict(random_, 2))


def test_the_good_file_is_planned(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(GOOD_FILE)

    assert len(plan(path).nodes) == 5

"""Ask what kind of file some bytes are, whatever their name.

Run: python examples/11_file_types/run.py [FILE ...]
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sqlite3
import sys
import wave
import zipfile
from pathlib import Path

import hami

HERE = Path(__file__).resolve().parent

PYTHON = '''"""Count words."""

import sys
from collections import Counter


def count(lines: list[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.split())


if __name__ == "__main__":
    print(count(sys.stdin.readlines()).most_common(10))
'''
C = """#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) printf("%zu %s\\n", strlen(argv[i]), argv[i]);
  return 0;
}
"""
SHELL = """#!/usr/bin/env bash
set -euo pipefail
for file in "$@"; do
    wc -l "$file" | awk '{print $1}'
done
"""
PAGE = """<!DOCTYPE html>
<html><head><title>Notes</title></head>
<body><h1>Notes</h1><p>A page with <a href="other.html">a link</a>.</p></body></html>
"""
TABLE = "name,year,price\n" + "".join(f"thing {i},{1990 + i},{i * 1.25:.2f}\n" for i in range(30))


def samples() -> dict[str, bytes]:
    """Return small files of many kinds, each under a name that says nothing."""
    packed, sound, database = io.BytesIO(), io.BytesIO(), sqlite3.connect(":memory:")
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(
            zipfile.ZipInfo("notes.txt"), PAGE
        )  # without a date, so that it is the same every day
    with wave.open(sound, "wb") as writer:
        writer.setparams((1, 2, 8000, 0, "NONE", ""))
        writer.writeframes(bytes(4000))
    database.execute("CREATE TABLE things (name TEXT, year INTEGER)")
    return {
        "Python": PYTHON.encode(),
        "C": C.encode(),
        "a shell script": SHELL.encode(),
        "a web page": PAGE.encode(),
        "a table": TABLE.encode(),
        "JSON": json.dumps({"name": "hami", "nodes": list(range(40)), "is_open": True}, indent=1).encode(),
        "a pickle": pickle.dumps({"weights": [0.5] * 40}, protocol=4),
        "gzip": gzip.compress(PYTHON.encode(), mtime=0),
        "a zip archive": packed.getvalue(),
        "a sound": sound.getvalue(),
        "a database": database.serialize()
        if hasattr(database, "serialize")
        else b"SQLite format 3\0" + bytes(4080),
        "two words": b"hi all",
        "nothing": b"",
    }


def main() -> None:
    """Print one line for each file, and how often the model ran for all of them."""
    named = {path: Path(path).read_bytes() for path in sys.argv[1:]} or samples()
    with hami.pipe(HERE / "pipeline.toml") as pipe:
        answers = pipe([{"data": data} for data in named.values()])
        figures = next(row for row in pipe.stats() if row["node"] == "classify")
    for name, answer in zip(named, answers, strict=True):
        found = answer["result"]
        print(f"{name:16} {found['label']:8} {found['score']:.2f}{'' if found['is_sure'] else '  not sure'}")
    runs = sum(figures["batch_rows"].values())
    print(f"the model saw {figures['items']} of {len(named)} files, in runs: {runs}")


if __name__ == "__main__":
    main()

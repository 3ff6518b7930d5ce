"""Refuse a core that asks for symbols without a version: they would be taken from whatever library has them.

    python symbols.py LIBRARY

Python's own symbols have none, and neither have a few of the linker's. Ends with 1 and the names where there
are others. Needs readelf.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ALLOWED = re.compile(r"_?Py[A-Z_]|__gmon_start__$|_ITM_|__tls_get_addr$")


def asked_for(library: Path) -> list[str]:
    """Return the symbols that `library` wants from others, as `name` or `name@version`."""
    listing = subprocess.run(
        ["readelf", "--dyn-syms", "--wide", str(library)], check=True, capture_output=True, text=True
    ).stdout
    rows = (line.split() for line in listing.splitlines())
    return [row[7] for row in rows if len(row) > 7 and row[6] == "UND"]


def foreign(library: Path) -> list[str]:
    """Return those that have no version and are neither Python's nor the linker's."""
    return sorted(name for name in asked_for(library) if "@" not in name and not ALLOWED.match(name))


def main() -> None:
    if names := foreign(Path(sys.argv[1])):
        sys.exit(f"foreign symbols without a version: {' '.join(names)}")


if __name__ == "__main__":
    main()

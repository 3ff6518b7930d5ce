"""Make the libraries that a wheel for older systems is linked against: names and versions, and no code.

    python stubs.py LEVEL FOLDER        LEVEL is manylinux2014 or manylinux_2_28

A linker takes the newest version of a symbol that it finds, so a wheel linked on this system would ask for
this system's glibc. The stubs offer what the level has and nothing newer: those of glibc come out of zig,
which can link for any version of it; those of libstdc++ and libgcc_s list the symbols of the installed
libraries up to the level. What libstdc++ gained later is taken from its static library, and what glibc gained
later from `compat/shim.c`; both stay hidden in the wheel. The linker scripts at the end say so to the linker,
in place of the `libstdc++.so` and `libc.so` that `g++` would find.

Needs `python -m ziglang`, g++ and readelf.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHIM = Path(__file__).parent / "compat" / "shim.c"
GLIBC_LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1")


@dataclass(frozen=True)
class Level:
    """The newest versions that the policy of a wheel tag allows."""

    glibc: str
    versions: dict[str, tuple[int, ...]]


LEVELS = {
    "manylinux2014": Level("2.17", {"GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7), "GCC": (4, 8, 0)}),
    "manylinux_2_28": Level("2.28", {"GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}),
}


@dataclass(frozen=True)
class Symbol:
    """A symbol that a library defines under its default version."""

    name: str
    version: str
    kind: str  # FUNC, OBJECT, TLS, ...
    is_weak: bool
    size: int


# One line of `readelf --dyn-syms`: number, value, size, type, binding, visibility, section, name@@version.
LINE = re.compile(r"\s*\d+: [0-9a-f]+\s+(0x[0-9a-f]+|\d+) (\w+)\s+(\w+)\s+\w+\s+(?!UND|ABS)\w+ (\S+?)@@(\S+)")


def number_of(version: str) -> tuple[str, tuple[int, ...]]:
    """Return the family and the number of a version: `GLIBCXX_3.4.19` is (`GLIBCXX`, (3, 4, 19))."""
    family, _, number = version.rpartition("_")
    is_plain = re.fullmatch(r"\d+(\.\d+)*", number) is not None
    return family, tuple(map(int, number.split("."))) if is_plain else ()


def symbols_of(library: Path, level: Level) -> Iterator[Symbol]:
    """Yield what `library` defines and the level has already."""
    listing = subprocess.run(
        ["readelf", "--dyn-syms", "--wide", str(library)], check=True, capture_output=True, text=True
    ).stdout
    for match in map(LINE.match, listing.splitlines()):
        if match is None:
            continue
        size, kind, binding, name, version = match.groups()
        family, number = number_of(version)
        if number and number <= level.versions.get(family, ()):
            yield Symbol(name, version, kind, binding != "GLOBAL", int(size, 0))


def assembly_of(symbol: Symbol) -> str:
    """Return the definition of a symbol: as long as its size where something could be copied from it."""
    binding = ".weak" if symbol.is_weak else ".globl"
    size = max(symbol.size, 1)
    section, kind, room = {
        "FUNC": (".text", "@function", 1),
        "IFUNC": (".text", "@function", 1),
        "TLS": ('.section .tbss,"awT",@nobits', "@tls_object", size),
    }.get(symbol.kind, (".data", "@object", size))
    name = symbol.name
    lines = (
        section,
        f"{binding} {name}",
        f".type {name}, {kind}",
        f"{name}: .zero {room}",
        f".size {name}, {size}",
    )
    return "\n".join(lines)


def make_stub(library: str, level: Level, folder: Path) -> None:
    """Link `folder/library` from the symbols of the installed library of that name."""
    found = path_of(library)
    symbols = list(symbols_of(Path(found).resolve(), level))
    if not symbols:
        sys.exit(f"stubs.py: `{found}` has no symbols of this level")
    source, script = folder / f"{library}.s", folder / f"{library}.map"
    source.write_text("\n".join(map(assembly_of, symbols)) + '\n.section .note.GNU-stack,"",@progbits\n')
    nodes: dict[str, list[str]] = {}
    for symbol in symbols:
        nodes.setdefault(symbol.version, []).append(f'"{symbol.name}";')
    script.write_text(
        "".join(f"{node} {{ global: {' '.join(names)} }};\n" for node, names in sorted(nodes.items()))
    )
    link = ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{library}", f"-Wl,--version-script={script}"]
    subprocess.run([*link, "-o", folder / library, source], check=True)


def make_glibc(level: Level, folder: Path) -> None:
    """Copy the stubs of glibc that zig makes when it links anything for its version."""
    empty, cache = folder / "empty.c", folder / "zig-cache"
    empty.write_text("int hami_stub;\n")
    subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", "-target", f"x86_64-linux-gnu.{level.glibc}", "-shared",
         "-o", folder / "empty.so", empty],
        check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "ZIG_GLOBAL_CACHE_DIR": str(cache),
                         "ZIG_LOCAL_CACHE_DIR": str(cache)},
    )  # fmt: skip
    for library in GLIBC_LIBRARIES:
        (made,) = cache.glob(f"o/*/{library}")
        (folder / library).write_bytes(made.read_bytes())


def path_of(file: str) -> str:
    """Return where g++ finds one of its files."""
    return subprocess.run(
        ["g++", f"-print-file-name={file}"], check=True, capture_output=True, text=True
    ).stdout.strip()


def write_linker_script(folder: Path, name: str, *files: str) -> None:
    """Write what the linker finds under a name such as `libm.so`: a list of other files."""
    (folder / name).write_text(f"INPUT({' '.join(files)})\n")


def make_compiler_libraries(level: Level, folder: Path) -> None:
    """Make what the linker finds under -lstdc++ and -lgcc_s, and the shim for what glibc lacks there."""
    for library in ("libstdc++.so.6", "libgcc_s.so.1"):
        make_stub(library, level, folder)
    shim = folder / "shim.o"
    subprocess.run(["gcc", "-c", "-O2", "-fPIC", "-fvisibility=hidden", "-o", shim, SHIM], check=True)
    subprocess.run(["ar", "rcs", folder / "libshim.a", shim], check=True)
    newer = (path_of("libstdc++.a"), f"{folder}/libshim.a")
    write_linker_script(folder, "libstdc++.so", f"{folder}/libstdc++.so.6", *newer)
    write_linker_script(folder, "libgcc_s.so", f"{folder}/libgcc_s.so.1", path_of("libgcc.a"))


def make_system_libraries(level: Level, folder: Path) -> None:
    """Make what the linker finds under -lm and -lc."""
    make_glibc(level, folder)
    late = " ".join(f"{folder}/{name}" for name in ("libpthread.so.0", "libdl.so.2", "librt.so.1"))
    static = (path_of("libc_nonshared.a"), f"{folder}/libshim.a")
    write_linker_script(folder, "libm.so", f"{folder}/libm.so.6")
    write_linker_script(folder, "libc.so", f"{folder}/libc.so.6", *static, f"AS_NEEDED({late})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("level", choices=LEVELS)
    parser.add_argument("folder", type=Path, help="is made; the linker gets it with -L")
    options = parser.parse_args()
    folder, level = options.folder.resolve(), LEVELS[options.level]
    folder.mkdir(parents=True, exist_ok=True)
    make_compiler_libraries(level, folder)
    make_system_libraries(level, folder)


if __name__ == "__main__":
    main()

"""`hami explain CODE`: what the page docs/errors.md says about an error, without a browser.

The page is the only source: a wheel has it beside the package, the source tree in docs/.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..errors import BuildError, ConfigError, did_you_mean
from .source import reported

_HERE = Path(__file__).resolve().parent
PLACES = (_HERE.parent / "errors.md", _HERE.parents[1] / "docs" / "errors.md")

_HEADING = re.compile(r"^(##|###) (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """What the page says about one code, and the heading of the group in which it stands."""

    code: str
    group: str
    text: str

    @property
    def first_sentence(self) -> str:
        """The sentence that stands in the list of all codes, on one line."""
        line = " ".join(self.text.split("\n\n")[0].split())
        return re.split(r"(?<=\.) (?=[A-Z`])", line)[0]


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="A code such as `config-unknown-key`.")
    ] = None,
) -> None:
    """Say what an error's code means and what to do about it, or list all codes."""
    with reported():
        sections = sections_of(page_text())
        typer.echo(list_text(sections) if code is None else section_text(sections, code))


def page_text() -> str:
    """Return the page. Raises BuildError where an installation lacks it."""
    for place in PLACES:
        if place.is_file():
            return place.read_text(encoding="utf-8")
    message = f"the page of the errors is not installed in `{PLACES[0].parent}`"
    raise BuildError(message, code="cli-explain-page", where="hami explain", help="reinstall `hami-core`")


def sections_of(page: str) -> dict[str, Section]:
    """Return the sections of the page by their codes, in its order."""
    sections: dict[str, Section] = {}
    group = ""
    _, *parts = _HEADING.split(page)
    for level, title, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if level == "##":
            group = title
        else:
            sections[title] = Section(title, group, body.strip())
    return sections


def section_text(sections: dict[str, Section], code: str) -> str:
    """Return what is printed for one code. Raises ConfigError for one that does not exist."""
    section = sections.get(code.strip("`:"))
    if section is None:
        message = f"there is no error with the code `{code}`"
        help = did_you_mean(code, sections, cutoff=0.7, otherwise="run `hami explain` for the list")
        raise ConfigError(message, code="cli-unknown-code", where="hami explain", help=help)
    return f"{section.code} ({section.group})\n\n{section.text}"


def list_text(sections: dict[str, Section]) -> str:
    """Return all codes by group, each with the first sentence of its section."""
    groups: dict[str, list[str]] = {}
    for section in sections.values():
        groups.setdefault(section.group, []).append(f"  {section.code:<32}{section.first_sentence}")
    return "\n\n".join("\n".join([f"{group}:", *rows]) for group, rows in groups.items())

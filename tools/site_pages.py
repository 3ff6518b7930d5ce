"""Give MkDocs the pages of the repository where they lie: the hook that mkdocs.yml names.

MkDocs reads one folder, and the pages lie in several. Here each gets its path in the repository as its path
in the site, so that a link which works on GitHub works on the site, and MkDocs itself checks all of them.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PATTERNS = ("*.md", "docs/**/*.md", "backends/*/*.md", "benchmarks/*.md", "examples/**/*.md", "wheels/*.md")
ASSETS = "docs/site/*"

_LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")
_CODE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
# The first line of a block: what says how the tests run it means nothing to a reader.
_FENCE = re.compile(r'^(?P<start> *```\w+)(?P<title> title="[^"]*")?(?: .*)?$', re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of `docs_dir` by all pages, and by the files that they link to."""
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    pages = sorted(page for pattern in PATTERNS for page in ROOT.glob(pattern))
    linked = (target for page in pages for target in linked_files(page))
    for path in dict.fromkeys([*pages, *linked, *ROOT.glob(ASSETS)]):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def linked_files(page: Path) -> list[Path]:
    """Return the files of the repository, pages excepted, that a page links to or shows."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    targets = [(page.parent / link).resolve() for link in _LINK.findall(text)]
    return [path for path in targets if path.is_file() and path.suffix != ".md" and path.is_relative_to(ROOT)]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave language and title of each block, which is what the highlighter takes."""
    return _FENCE.sub(lambda fence: fence["start"] + (fence["title"] or ""), markdown)

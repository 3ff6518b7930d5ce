"""The site builds without a warning, has all pages, loads nothing from elsewhere, and finds all errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from error_codes import all_codes

pytest.importorskip("material", reason="needs hami-core[docs]")

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = Path("/usr/bin/chromium")
WAIT_MS = 20_000
# What a browser loads by itself; a link in a text waits for a click.
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env=environment
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make site` does."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    return folder


@pytest.fixture
def site_pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the hook of mkdocs.yml."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import site_pages

    return site_pages


class Loads(HTMLParser):
    """Collects what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(LOADED.get(tag, ""))
        if address:
            self.found.append(address)


def foreign(folder: Path) -> Iterator[str]:
    """Yield what the pages and styles of a site load from other hosts."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".html":
            page = Loads()
            page.feed(path.read_text(encoding="utf-8"))
            found = page.found
        elif path.suffix == ".css":
            found = re.findall(r"""(?:url\(|@import )["']?([^"')]+)""", path.read_text(encoding="utf-8"))
        else:
            continue
        yield from (f"{path.name}: {one}" for one in found if re.match(r"(?:https?:)?//", one))


def test_every_page_of_the_repository_is_a_page_of_the_site(site: Path, site_pages: Any) -> None:
    pages = [page.relative_to(ROOT) for pattern in site_pages.PATTERNS for page in ROOT.glob(pattern)]
    names = [page.with_name("index") if page.stem == "README" else page for page in pages]

    assert len(names) > 50
    assert [str(name) for name in names if not (site / name).with_suffix(".html").is_file()] == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    assert list(foreign(site)) == []


def test_what_is_loaded_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://a.example/x.js"></script><link rel="stylesheet" href="//b.example/x.css">'
        '<img src="here.png"><a href="https://c.example">text</a>'
    )
    (tmp_path / "a.css").write_text('@import "https://d.example/x.css"; p {background: url(here.png)}')

    assert list(foreign(tmp_path)) == [
        "a.css: https://d.example/x.css",
        "a.html: https://a.example/x.js",
        "a.html: //b.example/x.css",
    ]


def test_every_block_is_highlighted(site: Path) -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}

    assert [path.name for path, text in pages.items() if re.search(r"<p>[^<]*```", text)] == []


def test_the_search_knows_every_error(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"] for entry in index["docs"]}

    assert [code for code in all_codes() if f"docs/errors.html#{code}" not in places] == []


SEARCH_IS_READY = """
() => !document.querySelector(".md-search-result__meta").textContent.includes("Initializing")
"""


@pytest.mark.skipif(not CHROMIUM.is_file(), reason=f"needs {CHROMIUM}")
def test_a_page_from_disk_finds_an_error_and_asks_nobody(site: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("request", lambda request: problems.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto((site / "index.html").as_uri())
        # What is typed before the search has read its index is lost, and the first letter makes it read.
        page.fill(".md-search__input", "c")
        page.wait_for_function(SEARCH_IS_READY, timeout=WAIT_MS)
        page.locator(".md-search__input").press_sequentially("onfig-unknown-key")
        found = page.wait_for_selector(
            "a.md-search-result__link[href*='#config-unknown-key']", timeout=WAIT_MS
        )
        found.click()
        page.wait_for_url("**/docs/errors.html*", timeout=WAIT_MS)
        title = page.text_content("#config-unknown-key")
        browser.close()

    assert title is not None and title.startswith("config-unknown-key")
    assert [problem for problem in problems if not problem.startswith("file:")] == []


def test_a_page_that_is_not_in_the_navigation_ends_the_build(tmp_path: Path) -> None:
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {ROOT / 'docs'}\n"
        f"hooks: [{ROOT / 'tools' / 'site_pages.py'}]\nwatch: []\nnav: [README.md]\n"
    )

    done = build(config, tmp_path / "site")

    assert done.returncode == 1
    assert 'not included in the "nav" configuration' in done.stderr and "docs/errors.md" in done.stderr


def test_files_that_a_page_links_to_come_along(tmp_path: Path, site_pages: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    (tmp_path / "a.png").touch()
    page = tmp_path / "page.md"
    page.write_text(
        "![x](a.png) [y](page.md#z) [z](https://a.example/b.png) [gone](gone.png)\n```\n[c](a.png)\n```\n"
    )

    assert site_pages.linked_files(page) == [tmp_path / "a.png"]


@pytest.mark.parametrize(
    ("fence", "shown"),
    [
        ('```python no-run="needs a GPU"', "```python"),
        ('```toml title="a.toml" no-run="text"', '```toml title="a.toml"'),
        ("  ```text output", "  ```text"),
        ("```sh", "```sh"),
        ("```", "```"),
    ],
)
def test_a_reader_sees_language_and_title_of_a_block(site_pages: Any, fence: str, shown: str) -> None:
    text = f"{fence}\nx = 1\n```\n"

    assert site_pages.on_page_markdown(text, None, None, None) == f"{shown}\nx = 1\n```\n"

"""Read two pages, draw what was found, and compare the speed with the package that the models come from.

Run: python examples/01_ocr/run.py [--output FILE] [--rounds N] [PICTURE ...]
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import itertools
import math
import queue
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.table import Table

import hami

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pages import blank_page, drawn_page, photographed_page  # examples/pages.py

HERE = Path(__file__).resolve().parent

CALLERS = (1, 4, 8)
SHEET_WIDTH_PX = 640
COLOURS = ((200, 30, 60), (20, 110, 200), (20, 140, 70))
Lines = list[dict[str, Any]]


def read(pipe: Any, picture: bytes) -> Lines:
    """Return the lines of one encoded picture."""
    lines: Lines = pipe({"data": picture})["result"]
    return lines


def draw(picture: bytes, lines: Lines) -> Image.Image:
    """Return the picture with its boxes, and beside it each text at the same place and as large."""
    page = Image.open(io.BytesIO(picture)).convert("RGB")
    scale = SHEET_WIDTH_PX / page.width
    page = page.resize((SHEET_WIDTH_PX, round(page.height * scale)))
    sheet = Image.new("RGB", (page.width * 2, page.height), "white")
    sheet.paste(page)
    pen = ImageDraw.Draw(sheet)
    for number, line in enumerate(lines):
        corners = [(x * scale, y * scale) for x, y in line["box"]]
        colour = COLOURS[number % len(COLOURS)]
        pen.polygon(corners, outline=colour, width=2)
        unit = ImageFont.load_default(100).getlength(line["text"]) / 100
        width, height = math.dist(corners[0], corners[1]), math.dist(corners[0], corners[3])
        size = max(8.0, min(0.8 * height, 0.97 * width / unit))
        pen.text(
            (page.width + corners[0][0], corners[0][1]), line["text"], colour, ImageFont.load_default(size)
        )
    return sheet


def stack(sheets: list[Image.Image]) -> Image.Image:
    """Return the sheets one above the other."""
    result = Image.new("RGB", (max(s.width for s in sheets), sum(s.height for s in sheets)), "white")
    top = 0
    for sheet in sheets:
        result.paste(sheet, (0, top))
        top += sheet.height
    return result


def pictures_a_second(call: Callable[[bytes], Any], pictures: list[bytes], num_callers: int) -> float:
    """Have `num_callers` threads call until all pictures are read."""
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for picture in pictures:
        waiting.put(picture)
    errors: list[BaseException] = []

    def caller() -> None:
        try:
            while True:
                call(waiting.get_nowait())
        except queue.Empty:
            return
        except Exception as error:  # raised again below, on the main thread
            errors.append(error)

    threads = [threading.Thread(target=caller) for _ in range(num_callers)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return len(pictures) / (time.perf_counter() - started)


def peer_reader(**options: Any) -> tuple[Callable[[bytes], list[str]] | None, str]:
    """Return the package's own reader as a function picture -> texts, or the reason why there is none."""
    if importlib.util.find_spec("rapidocr_onnxruntime") is None:
        return None, "`rapidocr-onnxruntime` is not installed (it is published for Python below 3.13)"
    try:
        from rapidocr_onnxruntime import RapidOCR
    except ImportError as error:
        return None, f"`rapidocr-onnxruntime` cannot be imported: {error}"
    reader = RapidOCR(**options)
    return lambda picture: [text for _, text, _ in reader(picture)[0] or []], ""


def compare(pipe: Any, pictures: list[bytes], num_rounds: int, console: Console) -> None:
    """Print pictures a second of hami at 1, 4 and 8 callers and of the package, rounds interleaved."""
    peer, reason = peer_reader()
    rows: dict[str, Callable[[], float]] = {
        f"hami, {count} caller{'s' * (count > 1)}": lambda count=count: pictures_a_second(
            lambda picture: pipe({"data": picture}), pictures, count
        )
        for count in CALLERS
    }
    if peer is not None:
        rows["rapidocr-onnxruntime"] = lambda: pictures_a_second(peer, pictures, 1)
    speeds: dict[str, list[float]] = {name: [] for name in rows}
    for number in range(num_rounds):
        for name, measure in rows.items():
            console.print(f"  round {number + 1} of {num_rounds}: {name}", style="dim")
            speeds[name].append(measure())
    table = Table(title=f"{len(pictures)} pictures in each of {num_rounds} interleaved rounds")
    for title in ("reader", "pictures/s (median)", "min..max", "beside the package"):
        table.add_column(title, justify="left" if title == "reader" else "right")
    base = statistics.median(list(speeds.values())[-1]) if peer is not None else None
    for name, values in speeds.items():
        median = statistics.median(values)
        ratio = f"{median / base:.2f}x" if base else ""
        table.add_row(name, f"{median:.2f}", f"{min(values):.2f}..{max(values):.2f}", ratio)
    console.print(table)
    if peer is not None:
        console.print("the package's own reader, with its default settings, reads one picture after another")
    else:
        console.print(f"no row for the package itself: {reason}")


def show(pipe: Any, pictures: dict[str, bytes], output: Path, console: Console) -> None:
    """Print the text of every picture, and write them with their boxes."""
    one_by_one, _ = peer_reader(rec_batch_num=1)
    sheets = []
    for name, picture in pictures.items():
        lines = read(pipe, picture)
        sheets.append(draw(picture, lines))
        console.print(f"\n[bold]{name}[/bold]: {len(lines)} lines")
        for line in lines:
            console.print(f"  {line['score']:.2f}  {line['text']}", markup=False, highlight=False)
        if one_by_one is not None:
            is_same = one_by_one(picture) == [line["text"] for line in lines]
            console.print(f"  the package reads {'the same' if is_same else 'ANOTHER TEXT'}", style="dim")
    stack(sheets).save(output)
    console.print(f"\nboxes drawn: {output}")


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pictures", nargs="*", type=Path, help="pictures to read instead of the two pages")
    parser.add_argument("--output", type=Path, default=HERE / "output.png", help="where the boxes are drawn")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the comparison; 0 leaves it out")
    parser.add_argument("--calls", type=int, default=8, help="pictures that each reader reads in a round")
    options = parser.parse_args()
    console = Console()
    pictures = {path.name: path.read_bytes() for path in options.pictures} or {
        "a photographed page": photographed_page(),
        "a drawn page, its second line upside down": drawn_page(),
    }
    with hami.pipe(HERE / "pipeline.toml") as pipe:
        show(pipe, pictures, options.output, console)
        console.print(f"\na page without text: {read(pipe, blank_page())}")
        try:
            read(pipe, photographed_page()[:3000])
        except hami.RequestError as error:
            console.print(f"a damaged picture: {error}", markup=False, highlight=False)
        if options.rounds > 0:
            console.print("\ncomparing the speed ...")
            repeated = itertools.islice(itertools.cycle(pictures.values()), options.calls)
            compare(pipe, list(repeated), options.rounds, console)


if __name__ == "__main__":
    main()

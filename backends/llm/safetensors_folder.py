"""Tensors of a Hugging Face folder: one `model.safetensors`, or several with an index.

Used by `weights.py`. The library maps the files, so a tensor costs memory only while it is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from hami.errors import BuildError

from .config import read_json

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"


class SafetensorsFolder:
    """The tensors of a folder by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Any] = {}
        self._places = self._read_index()

    def _read_index(self) -> dict[str, str]:
        if (self.folder / SINGLE).is_file():
            return dict.fromkeys(self._open(SINGLE).keys(), SINGLE)
        if not (self.folder / INDEX).is_file():
            raise BuildError(
                f"the folder `{self.folder}` has neither `{SINGLE}` nor `{INDEX}`",
                code="model-file",
                help="name a folder with weights in the safetensors format, or a GGUF file",
            )
        places = read_json(self.folder / INDEX).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
            raise self._error(INDEX, "it has no `weight_map`")
        for place in set(places.values()):
            if (
                place in {"", ".."} or Path(place).name != place
            ):  # an index is data of others: it may not point out of its folder
                raise self._error(INDEX, f"it names the file `{place}` outside of the folder")
        return places

    def _open(self, name: str) -> Any:
        if name not in self._files:
            try:
                self._files[name] = safe_open(self.folder / name, framework="pt")
            except (OSError, SafetensorError) as error:
                raise self._error(name, str(error)) from error
        return self._files[name]

    def _error(self, name: str, reason: str) -> BuildError:
        return BuildError(
            f"the weights `{self.folder / name}` cannot be read: {reason}",
            code="model-file",
            help="fetch the folder again; a file of it is missing or damaged",
        )

    def names(self) -> set[str]:
        """Return the names of the tensors."""
        return set(self._places)

    def read(self, name: str) -> torch.Tensor:
        """Return a tensor as it is stored."""
        place = self._places[name]
        try:
            tensor: torch.Tensor = self._open(place).get_tensor(name)
        except SafetensorError as error:
            raise self._error(place, f"`{name}`: {error}") from error
        return tensor

    def close(self) -> None:
        """Unmap the files."""
        self._files.clear()

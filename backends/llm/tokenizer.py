"""Text to token ids and back, and chats to prompts, out of the files of a model.

`Tokenizer` wraps one of the library `tokenizers`: read from `tokenizer.json`, or built out of a GGUF file by
`gguf_tokenizer.py`. Encoding may be called from any thread.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from hami.errors import BuildError, RequestError

from .chat import ChatTemplate
from .config import ModelConfig, read_json
from .gguf import GgufFile
from .gguf_tokenizer import tokenizer_of_gguf
from .token_bytes import TokenAlphabet


class Tokenizer:
    """A model's tokenizer. `eos_ids` end a text, `special_ids` stand for no text of their own."""

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        *,
        bos_id: int | None = None,
        adds_bos: bool = False,
        eos_ids: Iterable[int] = (),
        chat_template: str | None = None,
        template_names: Mapping[str, Any] | None = None,
        vocab_size: int = 0,
    ) -> None:
        self._inner = inner
        self.vocab_size = max(vocab_size, inner.get_vocab_size(with_added_tokens=True))
        self.bos_id = bos_id
        self.adds_bos = adds_bos and bos_id is not None
        added = inner.get_added_tokens_decoder()
        self.special_ids = frozenset(index for index, token in added.items() if token.special)
        self.eos_ids = tuple(dict.fromkeys(eos_ids))
        self._alphabet = TokenAlphabet(json.loads(inner.to_str()).get("decoder"))
        self._added = {index: token.content for index, token in added.items()}
        self._template_text = chat_template
        self._template_names = dict(template_names or {})

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, with exactly one token that begins a text where the model wants one."""
        try:
            ids: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError) as error:
            raise RequestError(
                f"the prompt is no text that can be encoded: {error}",
                code="llm-prompt",
                help="give a `str` without lone surrogates, token ids, or messages",
            ) from error
        if self.adds_bos and ids[:1] != [self.bos_id]:
            assert self.bos_id is not None
            ids.insert(0, self.bos_id)
        return ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True, continues: bool = False) -> str:
        """Return the text of `ids`; bytes that are no UTF-8 become U+FFFD.

        A tokenizer of the SentencePiece kind puts a space before a text; it is taken off again, unless the
        ids continue others.
        """
        table = self._bytes
        skipped = self.special_ids if skip_special_tokens else frozenset()
        raw = b"".join(table[index] for index in ids if 0 <= index < len(table) and index not in skipped)
        if self._alphabet.strips_space and not continues and raw.startswith(b" "):
            raw = raw[1:]
        return raw.decode("utf-8", errors="replace")

    def to_json(self) -> str:
        """Return what `tokenizer.json` holds."""
        return str(self._inner.to_str())

    def token_bytes(self) -> list[bytes]:
        """Return the bytes that each id stands for, by id; ids without a token stand for none."""
        return list(self._bytes)

    @functools.cached_property
    def _bytes(self) -> list[bytes]:
        table = [b""] * self.vocab_size
        for token, index in self._inner.get_vocab(with_added_tokens=True).items():
            if index < len(table):
                table[index] = self._alphabet.bytes_of(token)
        for index, content in self._added.items():
            table[index] = content.encode()
        return table

    @property
    def has_chat_template(self) -> bool:
        """Say whether the model came with a chat template."""
        return self._template_text is not None

    @functools.cached_property
    def _template(self) -> ChatTemplate:
        if self._template_text is None:
            raise RequestError(
                "the model has no chat template",
                code="llm-chat",
                help="give the prompt as text or as token ids, or use a model made for chats",
            )
        return ChatTemplate(self._template_text, self._template_names)

    def apply_chat(self, messages: Any, *, add_generation_prompt: bool = True, **names: Any) -> str:
        """Return the text of a chat; `names` are further variables of the template, such as `tools`."""
        return self._template.render(messages, add_generation_prompt=add_generation_prompt, **names)

    def encode_chat(self, messages: Any, *, add_generation_prompt: bool = True, **names: Any) -> list[int]:
        """Return the ids of a chat."""
        return self.encode(self.apply_chat(messages, add_generation_prompt=add_generation_prompt, **names))


def load_tokenizer(config: ModelConfig, place: Path | GgufFile) -> Tokenizer:
    """Return the tokenizer in a Hugging Face folder or in a GGUF file."""
    if isinstance(place, GgufFile):
        return _of_gguf(config, place)
    return _of_folder(config, place)


def _of_gguf(config: ModelConfig, file: GgufFile) -> Tokenizer:
    inner, adds_bos = tokenizer_of_gguf(file.metadata, file.path)
    names = {
        role: inner.id_to_token(index)
        for role, index in (("bos_token", config.bos_id), ("eos_token", next(iter(config.eos_ids), None)))
        if index is not None
    }
    template = file.metadata.get("tokenizer.chat_template")
    return Tokenizer(
        inner,
        bos_id=config.bos_id,
        adds_bos=adds_bos,
        eos_ids=config.eos_ids,
        chat_template=template if isinstance(template, str) else None,
        template_names=names,
        vocab_size=config.vocab,
    )


def _of_folder(config: ModelConfig, folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    try:
        inner = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise BuildError(
            f"the tokenizer `{path}` cannot be read: {error}",
            code="llm-tokenizer",
            help="the folder needs the `tokenizer.json` of a fast tokenizer",
        ) from error
    inner.no_truncation()
    inner.no_padding()
    settings_file = folder / "tokenizer_config.json"
    settings = read_json(settings_file) if settings_file.is_file() else {}
    names = {
        role: _content(settings.get(role)) for role in ("bos_token", "eos_token", "unk_token", "pad_token")
    }
    names = {role: token for role, token in names.items() if token is not None}
    bos_id = inner.token_to_id(names["bos_token"]) if "bos_token" in names else config.bos_id
    eos_id = inner.token_to_id(names["eos_token"]) if "eos_token" in names else None
    begins = inner.encode("a", add_special_tokens=True).ids[:1]
    return Tokenizer(
        inner,
        bos_id=bos_id,
        adds_bos=settings.get("add_bos_token") is True or (bos_id is not None and begins == [bos_id]),
        eos_ids=[*config.eos_ids, *([] if eos_id is None else [eos_id])],
        chat_template=_template_of(folder, settings.get("chat_template")),
        template_names=names,
        vocab_size=config.vocab,
    )


def _content(token: Any) -> str | None:
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else None


def _template_of(folder: Path, setting: Any) -> str | None:
    """Return the folder's template: a file of its own, or one of the settings; of several the default."""
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    if isinstance(setting, list):
        named = {entry.get("name"): entry.get("template") for entry in setting if isinstance(entry, dict)}
        setting = named.get("default")
    return setting if isinstance(setting, str) else None

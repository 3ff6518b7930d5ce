"""From the lines of a page to a prompt: the one backend that this example adds."""

from __future__ import annotations

from typing import Any

import hami


@hami.register
class AskAboutLines(hami.Backend):
    """Turn the lines of a page, and the request's `question`, into a chat; the text goes to `page`."""

    def forward(self, batch: list[dict[str, Any]]) -> None:
        for item in batch:
            page = "\n".join(line["text"] for line in item["data"])
            question = item.get("question", "What is this page about?")
            item["page"] = page
            item["result"] = [
                {"role": "system", "content": "You answer questions about a page in one short sentence."},
                {"role": "user", "content": f"The page says:\n{page}\n\n{question}"},
            ]

"""The voice activity detector of `silero-vad`, with a state for every stream."""

from __future__ import annotations

from typing import Any

import numpy as np

import hami

RATE_HZ = 16_000
NUM_SAMPLES = 512
NUM_CONTEXT = 64
"""How many samples of the chunk before the network sees again."""

STATE_SHAPE = (2, 1, 128)


@hami.register
class VoiceActivity(hami.Backend):
    """Tell how likely a chunk of sound is speech.

    `data`: 512 samples, float32, 16 kHz; `result`: a float. What the network remembers of a stream is kept in
    `self.storage`, until the stream ends. The states of a run stand side by side on axis 1.
    """

    batch_range = (1, 32)
    model = hami.param(type="path", doc="the ONNX file")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Load the model, which runs on one thread: it is small."""
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(self.model, settings, providers=["CPUExecutionProvider"])

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item; all chunks of the batch, each of another stream, run at once."""
        good = []
        for item in batch:
            chunk = np.asarray(item["data"])
            if chunk.shape == (NUM_SAMPLES,) and chunk.dtype == np.float32:
                good.append((item, chunk))
            else:
                message = (
                    f"a chunk is `{NUM_SAMPLES}` samples of float32, not `{chunk.dtype}{list(chunk.shape)}`"
                )
                item["error"] = hami.RequestError(message, help="cut the sound into chunks, the last one too")
        if good:
            self._run(good)

    def _run(self, batch: list[tuple[dict[str, Any], np.ndarray]]) -> None:
        names = [item["request_id"] for item, _ in batch]
        empty = np.zeros(NUM_CONTEXT, np.float32), np.zeros(STATE_SHAPE, np.float32)
        kept = [self.storage.get(name, "heard", empty) for name in names]
        inputs = np.stack(
            [np.concatenate([context, chunk]) for (context, _), (_, chunk) in zip(kept, batch, strict=True)]
        )
        states = np.concatenate([state for _, state in kept], axis=1)
        likely, states = self.session.run(None, {"input": inputs, "state": states, "sr": np.array(RATE_HZ)})
        for row, (item, _) in enumerate(batch):
            self.storage.set(names[row], "heard", (inputs[row, -NUM_CONTEXT:], states[:, row : row + 1]))
            item["result"] = float(likely[row, 0])

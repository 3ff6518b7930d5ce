"""Language models on paged keys and values: configuration, weights, tokenizers, models, executors, sampling.

docs/design/0008-the-language-model-in-rooms.md says how the parts meet.
"""

from .async_llm import AsyncLLM as AsyncLLM
from .llm import LLM as LLM
from .nodes import ContinuousBatching as ContinuousBatching
from .sampling import SamplingParams as SamplingParams

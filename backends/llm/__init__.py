"""Language models on paged keys and values: configuration, weights, tokenizers, models, executors, sampling.

docs/design/0008-the-language-model-in-rooms.md says how the parts meet. Importing this
package imports nothing heavy.
"""

"""hami: a runtime for inference pipelines."""

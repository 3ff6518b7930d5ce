"""Executors run the plans of the scheduler: one file for each kind, the protocol in `base.py`."""

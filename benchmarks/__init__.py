"""Benchmarks: one script per question, asked as a ratio within one run.

A thing and its reference take turns on the same machine, so what else goes on there
hits both; absolute times are printed beside the ratio and hardly ever judged.
"""

"""Messages: one reader of every shape, and writers for three APIs. Pure.

See decision 56.
"""

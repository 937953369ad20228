"""Every partial in each of its states, on one page: `/patterns/`, only under DEBUG.

A module here holds the samples of one noun's templates. They are made up, and nothing
that serves a project imports them.
"""

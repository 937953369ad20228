"""Every partial of the inspector in each of its states, on one page.

`python -m tests.gallery` draws it into a file. A module here holds the samples of one
noun's templates; they are made up.
"""

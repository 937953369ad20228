"""The inspector: HTML for operators, built from queries, never from writer states."""

#: Build number, raised when pages, panels or scripts change shape. The server tells
#: an open page of another build to reload.
BUILD = "1"

"""The inspector: HTML for operators. Reads queries, never the writer's states."""

#: Changes when pages, panels or scripts change shape; an open page of another
#: build is told to reload.
BUILD = "1"

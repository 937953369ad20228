"""How values are shown: cells, charts, trees, messages."""

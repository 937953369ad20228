"""Parts of a model's context: pages, manifest, recall, blocks and log, in tokens."""

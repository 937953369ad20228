"""Other products' protocols over the agents' API, at `/compat`, for their clients."""

"""Parts that every page shares: addresses, refusals, the shell, exports."""

"""Facts and blocks of subjects, beyond one thread. Never writes."""

"""Knowledge of subjects beyond one thread, written to their home threads."""

"""The demo: people and agents with seeded, scripted texts, without a real model."""

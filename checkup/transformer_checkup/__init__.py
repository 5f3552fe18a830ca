"""Is it a sound Transformer? Property checks, mutants, sealed models (lesson 15)."""

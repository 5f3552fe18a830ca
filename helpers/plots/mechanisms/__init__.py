"""Drawings of how a part of the Transformer works, from the numbers of an example."""

"""Weights to and from other people's modules, and those modules."""

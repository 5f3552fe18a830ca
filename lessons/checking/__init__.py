"""The engine of the exercises' checks."""

"""Training with fewer bits, and in several processes (lessons 13 and 14)."""

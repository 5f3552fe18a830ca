"""Training with fewer bits, in several processes, after a stop (lessons 09, 13, 14)."""

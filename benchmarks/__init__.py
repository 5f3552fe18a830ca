"""Speed and quality of what the course trains, measured: `make bench`."""

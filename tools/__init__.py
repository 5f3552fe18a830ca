"""What keeps the course true: set-up, running and checking the notebooks."""

"""What the experiments of one lesson need: its task, its models, its measurements."""

"""What belongs to one lesson alone: a folder each. No folder imports another's."""

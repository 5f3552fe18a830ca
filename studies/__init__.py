"""Experiments that are too long for a lesson, each with its stored table.

`NAME.py` begins with its question, and its `rows(tiny)` yields the table's rows, one
dictionary each. It takes at most 15 minutes on two cores; all take hours.
`make studies` runs them and stores `NAME.csv`, which a lesson reads by lessons.studies.
The first line of a table says by which code it was made; `make test` runs every study
at a tiny size, and names the tables whose code has changed since.
"""

"""Run studies and store their tables: python -m studies [--stale] [NAME …]

Without names: all of them, or with --stale those whose code has changed since.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence

from tools.reproducible import make_reproducible

make_reproducible(os.environ)  # before torch is imported

from studies import tables  # noqa: E402

LIMIT = 15 * 60


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the studies that the command line names; 1 if one took too long."""
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=", ".join(tables.NAMES)
    )
    parser.add_argument("--stale", action="store_true")
    options = parser.parse_args(arguments)
    if unknown := {*options.names} - {*tables.NAMES}:
        parser.error(f"no study {', '.join(sorted(unknown))}: see --help")
    chosen = options.names or tables.NAMES
    too_long = []
    for name in chosen:
        if options.stale and not tables.is_stale(name):
            continue
        started = time.perf_counter()
        try:
            tables.store(name)
        except ModuleNotFoundError as error:
            if error.name not in tables.OPTIONAL:
                raise
            print(
                f"studies/{name}.csv: left as it is, without {error.name}", flush=True
            )
            continue
        minutes = (time.perf_counter() - started) / 60
        print(f"studies/{name}.csv: {minutes:.1f} minutes", flush=True)
        if 60 * minutes > LIMIT:
            too_long.append(name)
    if too_long:
        print(
            f"more than {LIMIT // 60} minutes: {', '.join(too_long)}", file=sys.stderr
        )
    return int(bool(too_long))


if __name__ == "__main__":
    sys.exit(main())

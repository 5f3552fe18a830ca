"""`make bench`: the course beside what a user would otherwise pick, and how cost grows.

    make bench                   two tables and a picture, within ten minutes on two
                                 cores: benchmarks/speed.txt, growth.txt, growth.png
    make bench ARGS=course       run every lesson once and list what each takes
    make bench ARGS=gpu          on a GPU: steps and attention, gpu.txt and .csv

Multi30k's rows want its folder, by --data or COURSE_DATA; without it they take the toy
corpus. With --data, a model is trained for --minutes first, unless --model names one.
"""

import argparse
from collections.abc import Sequence

from benchmarks import course, gpu, growth, speed
from helpers.scale.precision import PRECISIONS


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; SystemExit for a command line that does not fit."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ("all", "speed", "growth", "course", "gpu")
    parser.add_argument("name", nargs="?", choices=names, default="all")
    parser.add_argument("--data", help="Multi30k's folder (or set COURSE_DATA)")
    parser.add_argument("--model", help="folder that helpers.translator train wrote")
    parser.add_argument(
        "--minutes", type=float, default=1.0, help="to train for without a model"
    )
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="fp32", help="of the training steps"
    )
    parser.add_argument(
        "--compile", action="store_true", help="compile the course's step"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmarks that the command line names."""
    chosen = parse(arguments)
    if chosen.name in ("all", "speed"):
        speed.main(chosen)
    if chosen.name in ("all", "growth"):
        growth.main()
    if chosen.name == "course":
        course.main()
    if chosen.name == "gpu":
        gpu.main()


if __name__ == "__main__":
    main()

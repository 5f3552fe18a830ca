"""python -m helpers.translator: see `helpers.translator.command_line`."""

import sys

from helpers.translator.command_line import main

sys.exit(main())

"""`python -m naic` is the same as `naic`."""

import sys

from naic.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m fastdp_dask.commands` is `fastdp`."""

import sys

from fastdp_dask.commands.app import main

if __name__ == "__main__":
    sys.exit(main())

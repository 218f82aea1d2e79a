"""`python -m fastdp_dask.commands` is `fastdp`."""

import sys

from fastdp_dask.commands.start import main

if __name__ == "__main__":
    sys.exit(main())

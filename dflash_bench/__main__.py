"""Make `python -m dflash_bench` the same as `dflash-bench`."""

from dflash_bench.cli import main

main()

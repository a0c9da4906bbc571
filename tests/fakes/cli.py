"""The command line with the scripted runner in it: `python -m tests.fakes.cli sweep spec.yaml`."""

from dflash_bench.cli import main
from dflash_bench.runners.registry import register
from tests.fakes.scripted import Scripted

if __name__ == "__main__":
    register("scripted", Scripted)
    main()

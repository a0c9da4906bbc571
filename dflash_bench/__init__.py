"""dflash-bench: will DFlash help this workload, on this machine, with this traffic?"""

__version__ = "0.1.0"

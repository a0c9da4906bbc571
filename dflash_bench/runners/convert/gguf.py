"""From a Hugging Face folder to the GGUF file that llama.cpp reads, by llama.cpp's own converter.

    python gguf.py --converter convert_hf_to_gguf.py --model FOLDER --dtype float32 --output FILE [--target FOLDER]

A drafter (DFlash, EAGLE-3) has no tokenizer of its own; the converter takes it from `--target`. A checkpoint that the
converter does not know (another architecture, a tensor without a name in GGUF) is its error, shown as it is.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

OUTTYPE = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


def command(arguments: Sequence[str]) -> list[str]:
    """Return the converter's command."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--converter", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--dtype", choices=OUTTYPE, required=True)
    parser.add_argument("--output", type=Path, required=True)
    known = parser.parse_args(arguments)
    words = [sys.executable, str(known.converter), str(known.model)]
    if known.target is not None:
        words += ["--target-model-dir", str(known.target)]
    return [*words, "--outtype", OUTTYPE[known.dtype], "--outfile", str(known.output)]


if __name__ == "__main__":
    sys.exit(subprocess.run(command(sys.argv[1:]), check=False).returncode)

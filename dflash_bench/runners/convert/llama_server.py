"""Starts llama-server for a number of slots: two things that its own flags do not say.

    python llama_server.py --bin FOLDER --model FILE --slots N --positions P [--weights q8_0] [llama-server's flags ...]

Its `-c` is the context of all slots together, and a burst of drafts that ends just where a slot's part ends is cut
short (`process_token` in tools/server/server-context.cpp asks for a place beyond the last token): so each slot gets
the positions asked for and a margin. Quantized weights are made by llama-quantize at the first start that wants them,
beside the file that they come from. Then this process becomes llama-server.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MARGIN = 64


def plan(arguments: Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """Return the command that quantizes, if that is still to be done, and the one that serves.

    What the first one writes is another file until it is whole: the last word but one of its command.
    """
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--positions", type=int, default=0, help="of a slot; 0: the model's")
    parser.add_argument("--weights", help="a type of llama-quantize, such as q8_0")
    known, flags = parser.parse_known_args(arguments)
    model, quantize = known.model, None
    if known.weights is not None:
        # Beside the file itself, which other starts link to as well.
        model = known.model.resolve().with_suffix(f".{known.weights}.gguf")
        part = (
            f"{model}.part-{os.getpid()}"  # of this process alone: two starts may quantize at once
        )
        if not model.exists():
            words = [known.bin / "llama-quantize", known.model, part, known.weights]
            quantize = [str(word) for word in words]
    context = known.slots * (known.positions + MARGIN) if known.positions else 0
    words = [known.bin / "llama-server", "-m", model, "-np", known.slots, "-c", context]
    return quantize, [*map(str, words), *flags]


def main() -> None:
    """Quantize if need be, then become the server."""
    quantize, serve = plan(sys.argv[1:])
    if quantize is not None:
        done = subprocess.run(quantize, check=False)
        if done.returncode:
            Path(quantize[2]).unlink(missing_ok=True)
            sys.exit(done.returncode)
        Path(quantize[2]).replace(serve[serve.index("-m") + 1])
    print("$", *serve, flush=True)
    os.execv(serve[0], serve)


if __name__ == "__main__":
    main()

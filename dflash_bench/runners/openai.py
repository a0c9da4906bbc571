"""Any OpenAI-compatible server: one that runs already, at `base_url`, or one that a recipe of `kind: openai` starts.

With addresses on the arms the arms are the servers: one that drafts and one that does not, on one machine or two alike
ones. What each was started with is then the user's to know; `method`, `draft` and `block_size` are labels, and a server
whose counters nobody knows tells no acceptance. `runner: vllm` with a `base_url` reads vLLM's.
"""

from dflash_bench.runners.recipe import Recipe, load_recipe
from dflash_bench.runners.server import ServerRunner
from dflash_bench.spec import Spec


def make(spec: Spec, recipe: Recipe | None = None) -> ServerRunner:
    """Return the runner of `recipe`, or of our `runners/openai.yaml`, which starts nothing."""
    return ServerRunner(spec, recipe or load_recipe("openai"))

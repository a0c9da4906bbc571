"""Dialects by name, as a recipe's `ask.dialect` says it."""

from collections.abc import Callable

from dflash_bench.runners.dialects.base import Dialect, Reply
from dflash_bench.runners.dialects.llama_cpp import LlamaCpp
from dflash_bench.runners.dialects.lmdeploy import Lmdeploy
from dflash_bench.runners.dialects.openai import OpenAI
from dflash_bench.runners.dialects.sglang import Sglang
from dflash_bench.runners.dialects.tensorrt_llm import TensorrtLlm
from dflash_bench.runners.dialects.vllm import Vllm

DIALECTS: dict[str, Callable[[], Dialect]] = {
    "openai": OpenAI,
    "vllm": Vllm,
    "sglang": Sglang,
    "llama.cpp": LlamaCpp,
    "lmdeploy": Lmdeploy,
    "tensorrt-llm": TensorrtLlm,
}

__all__ = ["DIALECTS", "Dialect", "Reply"]

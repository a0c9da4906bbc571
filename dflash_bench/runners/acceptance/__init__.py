"""What backends say of acceptance, each in its own way, becomes one record: `records.schema.Acceptance`.

canonical     the record's arithmetic: counts settled by the identity, lists of steps summed, everything checked
step_lists    backends that list what each step committed (dflash's own loops)
prometheus    snapshots of counters, and what happened between two
spec_decode   the counters that vLLM, LMDeploy and llama.cpp have in common
vllm, sglang, llama_cpp, tensorrt_llm     each one's numbers of a request
"""

"""What is asked: rows from their source, rendered to prompts, shaped to a context length.

YAML -> `Workload` -> `load_items` -> `Item` rows -> `render_prompts` or `shape` -> `Prompt`s
"""

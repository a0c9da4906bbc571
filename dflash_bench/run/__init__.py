"""From a plan to records: prompts are prepared once, then each visit is made and written down as it ends."""

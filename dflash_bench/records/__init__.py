"""Raw measurements: their schema, an append-only store, and where they were taken."""

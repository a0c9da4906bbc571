"""Records to cells and verdicts: every number that is printed is computed here, from raw records alone."""

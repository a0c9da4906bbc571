"""Other people's implementations as oracles: same weights, same prompts, greedy; same tokens, same accepted counts."""

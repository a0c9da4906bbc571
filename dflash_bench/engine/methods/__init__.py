"""How tokens are drafted: one file per method, its network and checkpoint apart."""

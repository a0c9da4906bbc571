"""A backend that is a library: a script of ours under its own Python, asked over pipes."""

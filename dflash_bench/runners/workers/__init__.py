"""What runs in a backend's own environment: scripts that import it and the standard library alone."""

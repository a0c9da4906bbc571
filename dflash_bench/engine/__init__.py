"""The textbook: one loop that drafts, verifies and commits, for AR and every drafter."""

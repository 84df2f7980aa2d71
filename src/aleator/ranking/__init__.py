"""Ranking: the blend, the mask of what was seen, and exact top-k."""

"""Ranking: the blend, masks of seen items, and exact top-k."""

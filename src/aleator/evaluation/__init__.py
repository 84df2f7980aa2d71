"""Evaluation: protocols, metrics, reports, significance."""

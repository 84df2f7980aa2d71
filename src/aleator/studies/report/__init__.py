"""How records become tables, figures and one HTML page."""

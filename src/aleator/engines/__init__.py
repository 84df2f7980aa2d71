"""Engines: what runs the pieces of a work. engine.py: this process; on_ray.py: workers of Ray."""

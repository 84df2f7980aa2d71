"""Batches: lists for any number of users, from a table of users to a folder of files."""

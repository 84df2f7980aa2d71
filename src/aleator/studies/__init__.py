"""Every table and figure of the paper, and what goes beyond it: one module a study.

`aleator reproduce NAME` measures a study and keeps one record for each of its cells; `aleator report` shows them.
"""

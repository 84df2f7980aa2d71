"""Every table and figure of the paper, and studies that go beyond it. One module holds one study.

`aleator reproduce NAME` measures a study and writes one record for each of its cells. `aleator report` shows them.
"""

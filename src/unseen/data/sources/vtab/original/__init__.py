"""Readers of the original files, one module per dataset.

Each has `find(root)`, the place of its files below a folder or None, and `read(place)`, the official splits under the
names that TFDS gives them, in the order in which TFDS records them (`order.py`): the first 800 and the first 200 are
then the authors' own. Where they are not, `Examples.own` says why.
"""

"""Readers of the original files, one module per dataset.

Each has `find(root)`, the place of its files below a folder or None, and `read(place)`, the official splits under the
names that TFDS gives them. The order of examples is a seeded shuffle: that of the TFDS records cannot be had from the
original files, so that the 1,000 examples drawn here are not the authors' own. Their content hash says so.
"""

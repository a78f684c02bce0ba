"""Errors, records, names, identity, files: the base of all packages, independent of images and models."""

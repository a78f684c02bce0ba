"""VTAB: unseen tasks, with few labels."""

"""Zero-shot learning: unseen classes, known only by a description."""

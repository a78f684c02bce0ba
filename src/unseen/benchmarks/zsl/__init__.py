"""Zero-shot learning (GBU): unseen classes, known only by a description."""

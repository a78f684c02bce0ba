"""Training whole networks: fine-tuning, and small networks from nothing."""

"""Training of whole networks: fine-tuning, and small networks from random weights."""

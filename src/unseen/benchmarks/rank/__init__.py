"""Rank checkpoints by their expected accuracy, and evaluate transferability scores (NeuCRaB)."""

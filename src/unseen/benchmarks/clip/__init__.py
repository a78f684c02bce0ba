"""Zero-shot classification by prompts."""

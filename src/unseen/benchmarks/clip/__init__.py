"""Zero-shot classification by text prompts."""

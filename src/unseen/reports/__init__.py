"""Room: to be filled."""

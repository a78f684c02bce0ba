"""The five datasets of Xian et al. in their published layout."""

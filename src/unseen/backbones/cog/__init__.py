"""The 31 models of ImageNet-CoG: their cards, where their authors publish the weights, and readers of those files.

`cards.toml` says all that is known of a model; `weights.py` finds or downloads its file; one module per published
format reads it without running it; `layouts.py` gives every tensor its place; `architectures.py` builds the network.
"""

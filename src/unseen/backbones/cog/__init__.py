"""The networks of the 31 models of ImageNet-CoG, and readers of the files that their authors published.

`cards.toml` has all that is known of a model; `sources/cog.py` finds or downloads its file; `formats.py` reads it
without running it and maps its names to ours; `architectures.py` builds the network.
"""

"""ImageNet-CoG: unseen concepts, increasingly distant from the training ones."""

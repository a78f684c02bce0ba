"""ImageNet-CoG: unseen concepts, ever further from the training ones."""

"""ImageNet-1K, its validation images, and the levels of ImageNet-CoG."""

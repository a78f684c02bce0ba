"""How well does a visual representation handle what it has never seen?

The public names of the package. Each is imported when first used, so that `import unseen` stays light.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]

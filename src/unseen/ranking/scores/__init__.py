"""One file per score: the function, its card and its cost."""

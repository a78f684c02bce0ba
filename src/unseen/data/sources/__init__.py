"""One module or package per kind of dataset; `unseen.data.load` has a line for each."""

"""Studies that ship with the package: run one by its name, or copy it as a beginning of your own."""

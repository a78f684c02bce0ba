"""What every room stands on: errors, records, names, identity, files. It knows no image, model or benchmark."""

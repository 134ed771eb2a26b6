"""The four screens behind the number keys."""

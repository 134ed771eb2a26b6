"""Forward passes. Imports torch."""

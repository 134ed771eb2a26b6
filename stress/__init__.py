"""Load generation and statistics. Knows engines only through HTTP and no database at all."""

"""Every run, kept in SQLite."""

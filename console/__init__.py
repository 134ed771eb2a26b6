"""The console: command line and screens."""

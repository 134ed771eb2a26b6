"""Timings of the engine alone, each a command. Never part of the tests."""

"""One file for each command or group of commands; each imports what it needs only when it runs."""

"""For developers only: makes the demo adapters that are shipped. Needs the ``oracle`` dependency group."""

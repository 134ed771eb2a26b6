"""The panels. Each draws the last state it was handed and keeps nothing else."""

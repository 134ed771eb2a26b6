"""What is pushed on top of a screen and answers one question."""

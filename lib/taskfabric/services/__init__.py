"""The hallway: who is it, may it, does it need a human, one board verb, the answer."""

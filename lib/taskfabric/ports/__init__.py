"""What the fabric needs from outside, one Protocol a file."""

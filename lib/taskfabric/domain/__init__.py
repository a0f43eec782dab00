"""The words of the fabric: pure Python, no input or output, no clock."""

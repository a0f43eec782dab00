"""Judging what kind of task a text is: by meaning where the extra ``router`` is installed, else by words."""

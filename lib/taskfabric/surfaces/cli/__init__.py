"""The command line: ``fabric`` and ``kb-claim``. It asks the fabric over HTTP and never opens the database.

A command costs little before it asks: arguments go out as plain JSON and the server alone judges them, so that neither
the models of the verbs nor a framework for command lines is loaded.
"""

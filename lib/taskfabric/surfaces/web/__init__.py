"""The board, the inbox and the rest of the fabric in a browser: pages made on the server, over the hallway's verbs."""

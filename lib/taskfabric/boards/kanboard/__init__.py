"""The board on a stock Kanboard, through its JSON-RPC API and without any plugin."""
